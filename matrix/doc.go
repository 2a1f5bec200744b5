// Package matrix turns a kernel and the catalogue of torch releases, compute
// toolkits and platforms into the list of variants to build.
//
// The catalogue is data (catalogue.toml): each row names its source and date.
// Everything here is a pure function of its arguments; what the host can do
// comes in through a Probe, and rendering goes out through an io.Writer.
package matrix
