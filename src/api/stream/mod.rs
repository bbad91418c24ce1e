//! Answers that go on: server-sent events.

mod event_hub;
mod event_stream;
mod followed_events;

pub(super) use event_hub::EventHub;
pub(super) use event_stream::{StreamPlace, dropped, event_stream, stream_place};
pub(super) use followed_events::follow_events;
