//! `apply_job` and `plant_manual`: definitions come and change, runs are planted, once.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_store::{
    ApplyOrder, ApplyReply, DefinitionChange, Existing, ManualReply, SourceKind, StoreError,
};

use crate::scripts::world::{World, definition, name, queue, run_of, successor, t, version};

/// Another definition of a job as it is now.
async fn edit(world: &World, job: &str, text: &str, planted: Option<i64>) -> ApplyOrder {
    let record = world.job(job).await;
    ApplyOrder {
        definition: version(text),
        read: Some((record.rev, record.lane)),
        planned: record.pending.or(record.paused_run),
        planted: planted.map(|due| successor(job, due)),
        ..definition(job, 0)
    }
}

#[tokio::test]
async fn a_new_job_stands_in_the_list_with_its_first_run_planted() {
    let world = World::new();
    let run = world.plant("a", 1000).await;
    let job = world.job("a").await;
    assert_eq!((job.pending.as_ref(), job.anchor, job.since), (Some(&run), t(0), t(-1000)));
    assert_eq!(world.indexed("a"), Some(1000));
    world.assert_sound();
}

#[tokio::test]
async fn a_definition_applied_twice_by_one_call_is_answered_alike_and_changes_nothing() {
    let world = World::new();
    let order = definition("a", 1000);
    for at in [0, 1] {
        assert_eq!(world.at(at).apply_job(&order).await.unwrap(), ApplyReply::Created);
    }
    let order = edit(&world, "a", "v2", Some(2000)).await;
    assert_eq!(world.at(2).apply_job(&order).await.unwrap(), ApplyReply::Updated);
    let before = world.snapshot();
    assert_eq!(world.at(3).apply_job(&order).await.unwrap(), ApplyReply::Updated);
    assert_eq!(world.snapshot(), before);
    world.assert_sound();
}

#[tokio::test]
async fn an_equal_definition_changes_nothing() {
    let world = World::new();
    world.plant("a", 1000).await;
    let before = world.snapshot();
    assert_eq!(world.at(0).apply_job(&definition("a", 5000)).await.unwrap(), ApplyReply::Unchanged);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_taken_name_is_reported_and_kept() {
    let world = World::new();
    world.plant("a", 1000).await;
    let before = world.snapshot();
    let refusing = ApplyOrder { existing: Existing::Refuse, ..definition("a", 5000) };
    assert_eq!(world.at(0).apply_job(&refusing).await.unwrap(), ApplyReply::Exists);
    let of_file =
        ApplyOrder { kind: SourceKind::File, source: "n1".to_owned(), ..definition("a", 5000) };
    assert_eq!(
        world.at(0).apply_job(&of_file).await.unwrap(),
        ApplyReply::OtherKind("api".to_owned())
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn an_edit_made_from_an_older_definition_is_stale() {
    let world = World::new();
    world.plant("a", 1000).await;
    let (first, second) =
        (edit(&world, "a", "v2", Some(2000)).await, edit(&world, "a", "v3", Some(3000)).await);
    assert_eq!(world.at(0).apply_job(&first).await.unwrap(), ApplyReply::Updated);
    let before = world.snapshot();
    assert_eq!(world.at(0).apply_job(&second).await.unwrap(), ApplyReply::Stale);
    let fresh_name = ApplyOrder { name: name("b"), planted: Some(successor("b", 5)), ..second };
    assert_eq!(
        world.at(0).apply_job(&fresh_name).await.unwrap(),
        ApplyReply::Stale,
        "a job read before it was forgotten"
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_changed_schedule_moves_a_run_to_come_and_owes_one_already_due() {
    let world = World::new();
    let (coming, due) = (world.plant("a", 1000).await, world.plant("b", -1).await);
    for job in ["a", "b"] {
        let order = edit(&world, job, "v2", Some(2000)).await;
        assert_eq!(world.at(0).apply_job(&order).await.unwrap(), ApplyReply::Updated);
    }
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 2000)));
    assert_eq!(world.score("due:default", &coming.to_string()), None);
    assert_eq!(world.indexed("a"), Some(2000));
    assert_eq!(world.job("b").await.pending, Some(due));
    assert_eq!(world.indexed("b"), Some(-1));
    world.assert_sound();
}

#[tokio::test]
async fn a_change_of_the_rest_leaves_the_planned_run_and_a_change_of_queue_takes_it_along() {
    for (change, planted) in
        [(DefinitionChange::Rest, None), (DefinitionChange::Schedule, Some(1000))]
    {
        let world = World::new();
        let run = world.plant("a", 1000).await;
        let order =
            ApplyOrder { lane: queue("other"), change, ..edit(&world, "a", "v2", planted).await };
        assert_eq!(world.at(0).apply_job(&order).await.unwrap(), ApplyReply::Updated);
        assert_eq!(world.job("a").await.pending.as_ref(), Some(&run));
        assert_eq!(world.score("due:default", &run.to_string()), None);
        assert_eq!(world.score("due:other", &run.to_string()), Some(1000));
        world.assert_sound();
    }
    let world = World::new();
    let run = world.plant("a", -1).await;
    let order = ApplyOrder { lane: queue("other"), ..edit(&world, "a", "v2", Some(2000)).await };
    world.at(0).apply_job(&order).await.unwrap();
    assert_eq!(
        world.score("due:other", &run.to_string()),
        Some(-1),
        "one already due is owed in the new queue"
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_job_that_becomes_manual_only_loses_its_planned_run() {
    let world = World::new();
    let run = world.plant("a", 1000).await;
    world.at(0).apply_job(&edit(&world, "a", "v2", None).await).await.unwrap();
    assert_eq!((world.job("a").await.pending, world.indexed("a")), (None, None));
    assert_eq!(world.score("due:default", &run.to_string()), None);
    world.assert_sound();
}

#[tokio::test]
async fn an_occurrence_that_has_run_is_not_planted_again_by_an_edit() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    world.succeed(1, &claim).await;
    let before = world.snapshot();
    let order = edit(&world, "a", "v2", Some(0)).await;
    assert_eq!(world.at(2).apply_job(&order).await.unwrap(), ApplyReply::Occupied);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_changed_schedule_of_a_paused_job_waits_for_the_resume() {
    let world = World::new();
    world.plant("a", 1000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    world.at(1).apply_job(&edit(&world, "a", "v2", Some(2000)).await).await.unwrap();
    let job = world.job("a").await;
    assert_eq!((job.pending, job.paused_run), (None, Some(run_of("a", 2000))));
    assert_eq!(world.indexed("a"), None);
    world.assert_sound();
}

#[tokio::test]
async fn what_passed_under_the_old_schedule_is_reported_with_its_change() {
    for is_paused in [true, false] {
        let world = World::new();
        let first = world.plant("a", 1000).await;
        if is_paused {
            world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
        }
        let from = if is_paused { 1000 } else { 2000 };
        let passed = Some(SkippedRange { first: t(from), last: t(9000), count: 8 });
        let order = ApplyOrder { passed, ..edit(&world, "a", "v2", Some(12_000)).await };
        let stale = ApplyOrder { planned: Some(run_of("a", 7)), ..order.clone() };
        let before = world.snapshot();
        assert_eq!(world.at(9500).apply_job(&stale).await.unwrap(), ApplyReply::Stale);
        assert_eq!(world.snapshot(), before, "the planned run is another than was read");
        assert_eq!(world.at(9500).apply_job(&order).await.unwrap(), ApplyReply::Updated);
        let reported = world.run(&run_of("a", from)).await;
        let reason = if is_paused { "paused" } else { "missed" };
        assert_eq!((reported.state, reported.reason.as_deref()), (RunState::Skipped, Some(reason)));
        assert_eq!((reported.skipped, world.total("skipped")), (Some((t(9000), 8)), 8));
        let job = world.job("a").await;
        let planned =
            if is_paused { (None, Some(run_of("a", 12_000))) } else { (Some(first), None) };
        assert_eq!((job.pending, job.paused_run), planned);
        world.assert_sound();
    }
}

#[tokio::test]
async fn many_definitions_go_in_at_once_and_a_refused_one_keeps_no_other_out() {
    let world = World::new();
    world.plant("taken", 5).await;
    let mut orders: Vec<ApplyOrder> =
        (0..300).map(|number| definition(&format!("j{number}"), number)).collect();
    orders.insert(150, ApplyOrder { existing: Existing::Refuse, ..definition("taken", 5) });
    let replies = world.at(-1).apply_jobs(&orders).await.unwrap();
    let refused = replies.iter().position(|reply| !matches!(reply, Ok(ApplyReply::Created)));
    assert_eq!((replies.len(), refused), (301, Some(150)));
    assert!(matches!(replies[150], Ok(ApplyReply::Exists)));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_asked_for_by_hand_is_planted_once_and_leaves_the_schedule_alone() {
    let world = World::new();
    world.plant("a", 1000).await;
    let hand = world.by_hand("a", 5).await;
    let before = world.snapshot();
    assert_eq!(
        world.at(6).plant_manual(&hand, &queue("default"), None).await.unwrap(),
        ManualReply::Planted
    );
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.indexed("a"), Some(1000));
    let claim = world.win(7, &hand).await;
    world.succeed(8, &claim).await;
    assert_eq!(
        world.at(9).plant_manual(&hand, &queue("default"), None).await.unwrap(),
        ManualReply::Planted,
        "not once more"
    );
    assert_eq!(world.state(&hand).await, RunState::Succeeded);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_asked_for_by_hand_needs_a_job_in_the_queue_it_was_read_in() {
    let world = World::new();
    world.plant("a", 1000).await;
    let before = world.snapshot();
    let hand = schedd_schedule::names::RunId::manual(name("a"), t(5), "x").unwrap();
    assert_eq!(
        world.at(5).plant_manual(&hand, &queue("other"), None).await.unwrap(),
        ManualReply::Stale
    );
    let hand = schedd_schedule::names::RunId::manual(name("b"), t(5), "x").unwrap();
    assert_eq!(
        world.at(5).plant_manual(&hand, &queue("default"), None).await.unwrap(),
        ManualReply::Unknown
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn an_equal_definition_with_moved_instants_replans_and_changes_nothing_else() {
    let world = World::new();
    let old = world.plant("a", 1000).await;
    let order = ApplyOrder {
        change: DefinitionChange::Zone,
        source: "n9".to_owned(),
        ..edit(&world, "a", "hash", Some(3000)).await
    };
    let order = ApplyOrder { definition: world.job("a").await.definition, ..order };
    assert_eq!(world.at(5).apply_job(&order).await.unwrap(), ApplyReply::Updated);
    assert_eq!(
        world.at(6).apply_job(&order).await.unwrap(),
        ApplyReply::Updated,
        "asked again by the same call"
    );
    let job = world.job("a").await;
    assert_eq!((job.pending, job.listed_by.len()), (Some(run_of("a", 3000)), 0));
    assert!(world.indexed("a") == Some(3000) && old != run_of("a", 3000));
    // Computed from what the job was before.
    let stale = ApplyOrder { token: "t9".to_owned(), ..order };
    assert_eq!(world.at(7).apply_job(&stale).await.unwrap(), ApplyReply::Stale);
    world.assert_sound();
}

#[tokio::test]
async fn an_add_of_a_new_name_reports_each_key_of_a_wrong_type_that_it_writes() {
    for key in ["job:a", "run:a@1790000000500", "jobs", "due:default", "audit_log:a"] {
        let world = World::new();
        let _: i64 = world.raw("RPUSH", key, &["not ours"]);
        let before = world.snapshot();
        let answer = world.at(0).apply_job(&definition("a", 500)).await;
        let Err(StoreError::WrongType { key: reported, .. }) = answer else {
            panic!("{key}: {answer:?}")
        };
        assert_eq!(reported, world.key(key));
        assert_eq!(world.snapshot(), before, "{key}");
    }
    // A new name touches no history.
    let world = World::new();
    let _: i64 = world.raw("RPUSH", "history", &["not ours"]);
    assert_eq!(world.at(0).add_jobs(&[definition("a", 500)]).await.unwrap(), [true]);
}

#[tokio::test]
async fn a_plain_add_leaves_what_a_judged_add_leaves() {
    let orders = || {
        let add = |job| ApplyOrder { token: "add".to_owned(), ..definition(job, 500) };
        [
            add("recurring"),
            ApplyOrder { is_once: true, ..add("once") },
            ApplyOrder { delay: Some(Duration::from_secs(5)), ..add("delayed") },
            ApplyOrder { max_runs: Some(3), ..add("counted") },
            ApplyOrder { notify: "on_failure late=5".to_owned(), ..add("notified") },
            ApplyOrder { lane: queue("q!5"), is_once: true, ..add("urgent") },
            ApplyOrder { planted: Some(successor("past", -500)), ..add("past") },
        ]
    };
    let (plain, judged) = (World::new(), World::new());
    assert_eq!(plain.at(0).add_jobs(&orders()).await.unwrap(), [true; 7]);
    for reply in judged.at(0).apply_jobs(&orders()).await.unwrap() {
        assert_eq!(reply.unwrap(), ApplyReply::Created);
    }
    plain.assert_sound();
    assert_eq!(plain.snapshot(), judged.snapshot());
    assert_eq!(plain.at(7).add_jobs(&orders()).await.unwrap(), [false; 7]);
    for reply in plain.at(7).apply_jobs(&orders()).await.unwrap() {
        assert_eq!(reply.unwrap(), ApplyReply::Created, "a repeated call");
    }
    assert_eq!(plain.snapshot(), judged.snapshot());
}

#[tokio::test]
async fn a_plain_add_leaves_names_and_runs_with_records_and_names_given_twice() {
    let world = World::new();
    let _: i64 = world.raw("HSET", &format!("run:{}", run_of("a", 500)), &["state", "succeeded"]);
    world.plant("b", 500).await;
    let before = world.snapshot();
    let orders = ["a", "b", "c", "c"].map(|job| definition(job, 500));
    assert_eq!(world.at(0).add_jobs(&orders).await.unwrap(), [false; 4]);
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.at(0).add_jobs(&orders[..3]).await.unwrap(), [false, false, true]);
}

#[tokio::test]
async fn a_definition_of_any_length_reads_back_and_one_of_1_kib_stays_compact() {
    let of = |filler: &str, bytes: usize| {
        let room = bytes - r#"{"shell":""}"#.len();
        let line = filler.repeat(room / filler.len());
        format!(r#"{{"shell":"{line}{}"}}"#, "x".repeat(room % filler.len()))
    };
    let texts = [
        ("{}".to_owned(), "listpack"),
        (of("a", 1_024), "listpack"),
        (of("é", 1_024), "listpack"),
        (of("🕐", 1_024), "listpack"),
        (of("a", 64), "listpack"),
        (of("é", 1_025), "hashtable"),
        (of("a", 60_000), "hashtable"),
        ("{}".to_owned(), "hashtable"),
    ];
    let world = World::new();
    world.plant("edited", 500).await;
    for (number, (text, encoding)) in texts.iter().enumerate() {
        let order = |job: &str| ApplyOrder { definition: text.clone(), ..definition(job, 500) };
        let (added, applied) = (format!("added{number}"), format!("applied{number}"));
        assert_eq!(world.at(0).add_jobs(&[order(&added)]).await.unwrap(), [true]);
        world.at(0).apply_job(&order(&applied)).await.unwrap();
        // An edit leaves nothing of the definition before.
        let job = world.job("edited").await;
        let edit = ApplyOrder { read: Some((job.rev, job.lane)), ..order("edited") };
        world.at(0).apply_job(&edit).await.unwrap();
        for job in [added.as_str(), &applied, "edited"] {
            assert_eq!(world.job(job).await.definition, *text, "{job}");
            let read = world.store.read_definitions(&[job.parse().unwrap()]).await.unwrap();
            assert_eq!(read, [Some(text.clone())], "{job}");
            let key = world.key(&format!("job:{job}"));
            let found: String = world.server(&["OBJECT", "ENCODING", &key]);
            // A record that was once a table stays a table.
            assert!(found == *encoding || job != "edited" && text == "{}", "{job} {found}");
        }
    }
}

#[tokio::test]
async fn only_recurring_jobs_are_given_as_recurring() {
    let world = World::new();
    world.plant("recurring", 500).await;
    world.plant_once("once", 500).await;
    let _: i64 = world.raw("RPUSH", "job:list", &["not ours"]);
    let names = ["once", "recurring", "missing", "list"].map(|job| job.parse().unwrap());
    assert_eq!(world.store.recurring_of(&names).await.unwrap(), names[1..]);
}
