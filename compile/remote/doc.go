// Package remote runs actions on a cluster that speaks the Remote Execution
// API v2 (build/bazel/remote/execution/v2/remote_execution.proto), and takes
// results from its action cache.
//
// What is sent is the action as package action encodes it, with two
// differences that let it run on any worker. The tools, which the key names by
// fingerprint, travel as inputs, and commands name them by relative paths, because the
// API does not say where on a worker the input tree lies. The platform holds what the cluster wants to know of the machine and
// nothing else. So the digest on the cluster is another one than the local key;
// it too is made of contents only, and is the same for everybody who has the
// same sources and tools.
//
//	endpoint.go   where the cluster is and how it is reached
//	client.go     one connection: capabilities, deadlines, retries
//	upload.go     what is missing there, sent once
//	stream.go     large blobs, resumed where they were cut
//	download.go   blobs, checked while they arrive
//	execute.go    operations: run, wait, reconnect, cancel
//	job.go        an action in the form in which a cluster runs it
//	tools.go      folders of tools as trees
//	executor.go   action.Executor
//	share.go      running here, with the cluster's action cache
//
// Trust: every blob is checked against its digest, so whoever stands between
// can withhold and not change. What a result says about the command is believed:
// who may write to the action cache, and the workers, decide what is built.
package remote
