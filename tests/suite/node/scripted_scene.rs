//! Two scripted nodes in the midst of work, with the jobs of [`Scene`](super::scene::Scene). No
//! process of a job starts.

use serde_json::json;

use super::scene::{LONG_ONES, SHORT_ONES, attempts_by_run};
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::script::Script;
use crate::support::scripted_node::ScriptedNode;
use crate::support::wait::{LONG, until};

pub(crate) struct ScriptedScene {
    pub(crate) redis: TestRedis,
    pub(crate) script: Script,
    pub(crate) nodes: Vec<ScriptedNode>,
}

impl ScriptedScene {
    /// Nodes whose leases last so long.
    pub(crate) fn with_lease(lease: &str) -> Self {
        let redis = TestRedis::durable();
        let url = redis.url();
        Self::at(redis, &url, lease)
    }

    /// The same, under a user of their own who may do everything.
    pub(crate) fn with_lease_and_user(lease: &str, user: &str, password: &str) -> Self {
        let redis = TestRedis::durable();
        let rules = ["SETUSER", user, "on", &format!(">{password}"), "~*", "&*", "+@all"];
        let () = redis::cmd("ACL").arg(&rules).query(&mut redis.connection()).unwrap();
        let url = format!("{}?user={user}&pass={password}", redis.url());
        Self::at(redis, &url, lease)
    }

    fn at(redis: TestRedis, url: &str, lease: &str) -> Self {
        let (script, eye) = (Script::new(), Eye::on(&redis));
        let jobs = format!(
            "[daemon]\nlease = \"{lease}\"\n[jobs.beat]\nevery = \"1s\"\nshell = \"true\"\ncatch_up = {{ mode = \"all\" }}\n"
        );
        let start = |name: &&str| ScriptedNode::at(url, &script).node(name).jobs(&jobs).start();
        let nodes: Vec<ScriptedNode> = ["one", "two"].iter().map(start).collect();
        for name in LONG_ONES {
            eye.add(&json!({"name": name, "in": "0s", "shell": "sleep 6"}));
        }
        for number in 0..SHORT_ONES {
            let delay = format!("{}ms", 1_000 + number * 400);
            eye.add(&json!({"name": format!("short{number}"), "in": delay, "shell": "sleep 0.2"}));
        }
        for name in LONG_ONES {
            until(&format!("{name} begins"), LONG, || script.of(name).into_iter().next());
        }
        Self { redis, script, nodes }
    }

    /// A look of its own: what looked before the fault has met it too.
    pub(crate) fn eye(&self) -> Eye {
        Eye::on(&self.redis)
    }

    /// Returns true if a node has logged it.
    pub(crate) fn logged(&self, text: &str) -> bool {
        self.nodes.iter().any(|node| node.log().contains(text))
    }

    /// Waits until a node has logged it.
    #[track_caller]
    pub(crate) fn until_logged(&self, text: &str) {
        until(&format!("a node logs {text:?}"), LONG, || Some(()).filter(|()| self.logged(text)));
    }

    /// Every run was done, in one attempt.
    #[track_caller]
    pub(crate) fn assert_all_done_once(self) {
        let logs: Vec<String> = self.nodes.iter().map(ScriptedNode::log).collect();
        for (run, attempts) in attempts_by_run(&self.eye(), || self.script.all(), &logs) {
            assert_eq!(attempts.len(), 1, "{run} was begun again: {attempts:?}");
        }
    }
}
