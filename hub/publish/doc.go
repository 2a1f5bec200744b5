// Package publish brings built variants to a Hub, so that a kernel is either
// published whole or not at all.
//
// The order is: read and hash the bundle, pass every gate, read the remote
// branch, plan, bring large files to the LFS store (which no reader sees),
// then commit with the branch's head as parent. Nothing is written before the
// gates have passed. If the head has moved, the remote is read and the plan
// made again; a change to the variants being published that the first reading
// did not see ends the publish instead of being overwritten. If the answer to
// a commit is lost, the same re-reading finds out whether it was applied, so a
// commit is never made twice.
package publish
