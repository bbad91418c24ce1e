//! What a test needs of its host: programs, sockets, proxies, mounts, clocks and terminals.

pub(crate) mod http_sink;
pub(crate) mod notified;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod silent_mount;
pub(crate) mod stepped_clock;
pub(crate) mod terminal_session;
