// Package action describes one step of a build in the terms of the Remote
// Execution API v2: a command, its environment, a tree of input files and the
// platform it needs. The digest of that description is the step's key, the
// same in the local cache, in a shared one and on a cluster.
//
// Everything here is pure: no file is opened and no program is run. The
// protocol is build/bazel/remote/execution/v2/remote_execution.proto; comments
// name its messages.
package action
