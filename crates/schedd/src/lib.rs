//! The library of schedd: the loops of a node, and the interface between a node and the code that
//! executes its attempts.

#[doc(hidden)]
pub mod attempts;
#[doc(hidden)]
pub mod engine;
#[cfg(feature = "http-client")]
#[doc(hidden)]
pub mod http_client;
