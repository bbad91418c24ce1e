//! Names and ids of jobs, runs, queues, groups and nodes.

mod fence;
mod name_json;
mod name_types;
mod notice_kind;
mod run_id;

pub use fence::Fence;
pub use name_types::{
    GroupName, HandlerName, IdError, JobName, Label, MAX_NAME_LEN, NodeName, QueueName,
};
pub use notice_kind::NoticeKind;
pub use run_id::{RunId, RunKind};
