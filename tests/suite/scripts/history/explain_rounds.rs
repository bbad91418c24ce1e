//! The number of round trips that an explanation takes.

use schedd::engine::explanation::{Ask, gather};
use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_schedule::names::{NodeName, RunId};
use schedd_store::{ApplyOrder, EventNote};

use crate::scripts::world::{World, definition, name, run_of, t};

/// Returns how often the server has read commands from a connection.
fn reads(connection: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query(connection).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_explanation_without_a_gate_takes_three_round_trips() {
    let world = World::new();
    let text = r#"{"every":"5s","command":["true"]}"#.to_owned();
    world.plant_as(ApplyOrder { definition: text, ..definition("a", 0) }).await;
    let first = world.win_with(0, &run_of("a", 0), Overlap::Skip, 5_000).await;
    world.succeed(10, &first).await;
    world.win_with(5_000, &run_of("a", 5_000), Overlap::Skip, 10_000).await;
    let node: NodeName = "n1".parse().unwrap();
    let started = NodeEventKind::Started { seen_before: None };
    let event = NodeEvent { what: started, from: t(0), to: None };
    world.at(0).note_events(&node, &[EventNote { event, replaces: None }]).await.unwrap();

    let running = run_of("a", 5_000);
    let manual = RunId::backfill(name("a"), t(0));
    let questions = [
        Ask::Job,
        Ask::Last,
        Ask::At(t(0)),
        Ask::At(t(5_000)),
        Ask::Run(running),
        Ask::Run(manual),
    ];
    let store = world.at(5_010);
    // The first explanation opens the connection and loads the script of the poll.
    Box::pin(gather(&store, &name("a"), &Ask::Job, None)).await.unwrap().unwrap();
    let mut connection = world.redis.connection();
    for ask in questions {
        let before = reads(&mut connection);
        Box::pin(gather(&store, &name("a"), &ask, None)).await.unwrap().unwrap();
        let rounds = reads(&mut connection) - before - 1;
        assert!(rounds <= 3, "{ask:?} took {rounds} round trips");
    }
}
