// Package compile turns a kernel and its variants into files under build/.
//
// NewPlan makes a graph of actions: one for each translation unit, one for
// each link. A unit that includes no header of torch is one action for every
// torch version; a binding is one for each. Plan.Run takes each action's
// result from the cache or runs it, lets a Checker look at objects and
// libraries, and puts each variant's folder together in one rename.
//
// The key of an action is a digest over everything it depends on (see package
// action): contents, never times or paths of this machine. Tool paths in
// commands are virtual; only the executor knows where the tools lie.
//
//	action/   what an action is and what its key is made of
//	source/   what a translation unit reads
//	glue/     generated text: registration.h, _ops.py
//	relink/   makes the symbols of an ISA unit local
//	cache/    results on disk
//	local/    runs actions here
//	remote/   runs actions on a Remote Execution cluster
//	progress/ shows a run to a person
package compile
