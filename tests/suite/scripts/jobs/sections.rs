//! What files say of queues and groups, as it is kept for all nodes.

use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::group_rules::{GroupSettings, TurnRules};
use schedd_core::domain::queue::queue_rules::{QueueChange, QueueKey, QueueSettings};
use schedd_schedule::names::QueueName;
use schedd_store::{DeclareReply, QueueRecord, QueueReply, QueueSwitch, Section, SectionText};

use crate::scripts::world::{World, name, t};

fn queue(text: &str) -> QueueName {
    text.parse().unwrap()
}

fn node(text: &str) -> SourceName {
    text.parse().unwrap()
}

fn limited(limit: u32) -> SectionText {
    SectionText::Queue(QueueSettings { limit: Some(limit), ..QueueSettings::default() })
}

async fn limit(world: &World) -> Option<u32> {
    world.store.read_queue_settings(&["q".parse().unwrap()]).await.unwrap()[0].settings.limit
}

#[tokio::test]
async fn a_section_is_written_once_for_each_change_of_its_text() {
    let world = World::new();
    let section = Section::Queue("q".parse().unwrap());
    let declare = async |node_name: &str, text: &SectionText| {
        world.at(0).declare_section(&node(node_name), &section, Some(text)).await.unwrap()
    };
    assert_eq!(declare("n1", &limited(3)).await, DeclareReply::Declared);
    assert_eq!(declare("n1", &limited(3)).await, DeclareReply::Unchanged);
    assert_eq!(world.raw::<String>("HGET", "queues", &["q"]), "32");
    // Another file's text holds from then on, and a restart with the first one's does not undo it.
    assert_eq!(declare("n2", &limited(5)).await, DeclareReply::Declared);
    assert_eq!(declare("n1", &limited(3)).await, DeclareReply::Unchanged);
    assert_eq!(limit(&world).await, Some(5));
    let declared = world.store.read_declared(&node("n1")).await.unwrap();
    assert_eq!(declared.get(&section), Some(&limited(3).hash()), "what it said stands");
    assert_eq!(declare("n1", &limited(4)).await, DeclareReply::Declared);
    assert_eq!(limit(&world).await, Some(4));
    // What is gone is said again.
    let _: i64 = world.raw("DEL", "queue:q", &[]);
    assert_eq!(world.store.read_declared(&node("n1")).await.unwrap()[&section], "");
    assert_eq!(declare("n1", &limited(4)).await, DeclareReply::Declared);
}

#[tokio::test]
async fn a_section_goes_with_the_last_file_that_has_it() {
    let world = World::new();
    let queue_section = Section::Queue("q".parse().unwrap());
    let group = Section::Group("g".parse().unwrap());
    let turns = TurnRules {
        order: vec![name("a"), name("b")],
        gap: TurnRules::GAP,
        turn_timeout: TurnRules::TURN_TIMEOUT,
    };
    let alternate = GroupSettings::Alternate(turns);
    for node_name in ["n1", "n2"] {
        world
            .at(0)
            .declare_section(&node(node_name), &queue_section, Some(&limited(3)))
            .await
            .unwrap();
    }
    world
        .at(0)
        .declare_section(&node("n1"), &group, Some(&SectionText::Group(alternate.clone())))
        .await
        .unwrap();
    assert_eq!(
        world.store.read_groups().await.unwrap().into_iter().next(),
        Some(("g".parse().unwrap(), alternate))
    );

    let withdraw = async |node_name: &str, section: &Section| {
        world.at(0).declare_section(&node(node_name), section, None).await.unwrap()
    };
    assert_eq!(withdraw("n1", &queue_section).await, DeclareReply::Kept);
    assert_eq!(limit(&world).await, Some(3));
    assert_eq!(withdraw("n2", &queue_section).await, DeclareReply::Withdrawn);
    assert_eq!(limit(&world).await, None);
    assert_eq!(
        world.raw::<String>("HGET", "queues", &["q"]),
        "32",
        "its runs are still looked for"
    );
    assert_eq!(withdraw("n1", &group).await, DeclareReply::Withdrawn);
    assert!(world.store.read_groups().await.unwrap().is_empty());
    assert!(world.store.read_declared(&node("n1")).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_text_of_a_file_that_is_gone_gives_way_to_what_the_others_say() {
    let world = World::new();
    let section = Section::Queue("q".parse().unwrap());
    let declare = async |file: &str, text: Option<&SectionText>| {
        world.at(0).declare_section(&node(file), &section, text).await.unwrap()
    };
    let said =
        async |file: &str| world.store.read_declared(&node(file)).await.unwrap()[&section].clone();
    declare("n1", Some(&limited(3))).await;
    declare("n2", Some(&limited(5))).await;
    assert_eq!(declare("n2", None).await, DeclareReply::Kept);
    assert_eq!(said("n1").await, "", "it is to say it again");
    assert_eq!(declare("n1", Some(&limited(3))).await, DeclareReply::Declared);
    assert_eq!((limit(&world).await, said("n1").await), (Some(3), limited(3).hash()));
    // What holds is not that of the file that goes, or another says the same: nothing is to be said again.
    declare("n2", Some(&limited(5))).await;
    declare("n1", Some(&limited(4))).await;
    declare("n2", None).await;
    assert_eq!((limit(&world).await, said("n1").await), (Some(4), limited(4).hash()));
    declare("n2", Some(&limited(4))).await;
    declare("n2", None).await;
    assert_eq!((limit(&world).await, said("n1").await), (Some(4), limited(4).hash()));
}

#[tokio::test]
async fn a_pause_in_a_file_ends_when_the_file_says_so_no_more() {
    let world = World::new();
    let section = Section::Queue("q".parse().unwrap());
    let paused = SectionText::Queue(QueueSettings { is_paused: true, ..QueueSettings::default() });
    world.at(7).declare_section(&node("n1"), &section, Some(&paused)).await.unwrap();
    let record = world.store.read_queue_settings(&[queue("q")]).await.unwrap().remove(0);
    assert_eq!(record.paused, Some((t(7), "file of n1".to_owned())));
    assert!(record.settings.is_paused);
    world.at(8).declare_section(&node("n1"), &section, Some(&limited(1))).await.unwrap();
    assert!(
        !world.store.read_queue_settings(&["q".parse().unwrap()]).await.unwrap()[0]
            .settings
            .is_paused
    );
}

async fn record(world: &World, name: &str) -> QueueRecord {
    world.store.read_queue_settings(&[queue(name)]).await.unwrap().remove(0)
}

#[tokio::test]
async fn what_is_set_by_hand_holds_until_somebody_edits_the_section() {
    let world = World::new();
    let section = Section::Queue(queue("q"));
    let declare = async |node_name: &str, text: &SectionText| {
        world.at(0).declare_section(&node(node_name), &section, Some(text)).await.unwrap()
    };
    declare("n1", &limited(3)).await;
    let read = record(&world, "q").await.settings;
    let wanted = QueueSettings { limit: Some(9), concurrency: 4, ..read.clone() };
    let by_ana = world.at(5).signed("ana@h");
    let change = |settings: &QueueSettings, named: &[QueueKey]| QueueChange {
        settings: settings.clone(),
        named: named.iter().copied().collect(),
    };
    let both = change(&wanted, &[QueueKey::Limit, QueueKey::Concurrency]);
    assert_eq!(by_ana.set_queue(&queue("q"), &both).await.unwrap(), QueueReply::Done);
    let set = record(&world, "q").await;
    assert_eq!((set.settings.clone(), set.set.clone()), (wanted, Some((t(5), "ana@h".to_owned()))));
    assert!(set.is_concurrency_by_hand);
    assert_eq!(world.raw::<String>("HGET", "queues", &["q"]), "4");
    // A restart with the text as it was changes nothing; an edit takes all of it back.
    assert_eq!(declare("n1", &limited(3)).await, DeclareReply::Unchanged);
    assert_eq!(record(&world, "q").await, set);
    declare(
        "n1",
        &SectionText::Queue(QueueSettings {
            limit: Some(2),
            concurrency: 6,
            ..QueueSettings::default()
        }),
    )
    .await;
    let edited = record(&world, "q").await;
    assert_eq!(
        (edited.settings.limit, edited.set, edited.is_concurrency_by_hand),
        (Some(2), None, false)
    );
    // Settings by hand outlive the last file that says anything of the queue.
    let seven = QueueSettings { limit: Some(7), concurrency: 9, ..edited.settings.clone() };
    by_ana
        .set_queue(&queue("q"), &change(&seven, &[QueueKey::Limit, QueueKey::Concurrency]))
        .await
        .unwrap();
    assert!(record(&world, "q").await.is_concurrency_by_hand);
    by_ana.set_queue(&queue("q"), &change(&seven, &[QueueKey::OwnConcurrency])).await.unwrap();
    let left = record(&world, "q").await;
    assert_eq!(
        (left.is_concurrency_by_hand, left.settings.concurrency),
        (false, 6),
        "left to each node's file"
    );
    assert_eq!(world.raw::<String>("HGET", "queues", &["q"]), "6");
    assert_eq!(
        world.at(6).declare_section(&node("n1"), &section, None).await.unwrap(),
        DeclareReply::Kept
    );
    assert_eq!(limit(&world).await, Some(7));
}

#[tokio::test]
async fn a_copy_of_a_file_edits_nothing_and_a_text_that_comes_back_does() {
    let world = World::new();
    let section = Section::Queue(queue("q"));
    let declare = async |file: &str, text: &SectionText| {
        let is_edit = world.at(0).would_declare(&node(file), &section, text).await.unwrap();
        let reply = world.at(0).declare_section(&node(file), &section, Some(text)).await.unwrap();
        assert_eq!(is_edit, reply == DeclareReply::Declared, "{file}");
        reply
    };
    let settings = QueueSettings { limit: Some(3), is_paused: true, ..QueueSettings::default() };
    let (first, second) = (SectionText::Queue(settings.clone()), limited(5));
    assert_eq!(declare("n1", &first).await, DeclareReply::Declared);
    let by_ana = world.at(5).signed("ana@h");
    let change = QueueChange {
        settings: QueueSettings { limit: Some(1), ..settings },
        named: [QueueKey::Limit].into(),
    };
    by_ana.set_queue(&queue("q"), &change).await.unwrap();
    by_ana.switch_queue(&queue("q"), QueueSwitch::Resume).await.unwrap();
    let by_hand = record(&world, "q").await;
    assert_eq!((by_hand.settings.limit, by_hand.settings.is_paused), (Some(1), false));
    // A host that comes with the same file, and one more that has it while what holds came from another.
    assert_eq!(declare("n2", &first).await, DeclareReply::Unchanged);
    assert_eq!(record(&world, "q").await, by_hand);
    assert_eq!(world.store.read_declared(&node("n2")).await.unwrap()[&section], first.hash());
    world.at(6).declare_section(&node("n1"), &section, None).await.unwrap();
    assert_eq!(declare("n3", &first).await, DeclareReply::Unchanged, "n2 says it still");
    assert_eq!(record(&world, "q").await, by_hand);
    // An edit, the same edit on the next host, and the edit taken back.
    assert_eq!(declare("n2", &second).await, DeclareReply::Declared);
    assert_eq!(limit(&world).await, Some(5));
    by_ana.set_queue(&queue("q"), &change).await.unwrap();
    assert_eq!(declare("n3", &second).await, DeclareReply::Unchanged);
    assert_eq!(declare("n4", &first).await, DeclareReply::Declared, "nobody says that any more");
    by_ana.set_queue(&queue("q"), &change).await.unwrap();
    assert_eq!(
        declare("n5", &second).await,
        DeclareReply::Unchanged,
        "others have said it, and it is new"
    );
    assert_eq!(limit(&world).await, Some(1));
    assert_eq!(declare("n2", &first).await, DeclareReply::Unchanged);
    assert_eq!(declare("n4", &second).await, DeclareReply::Declared, "it was edited");
    assert_eq!(limit(&world).await, Some(5));
}

#[tokio::test]
async fn a_pause_by_hand_ends_by_hand_only_and_twice_is_once() {
    let world = World::new();
    let section = Section::Queue(queue("q"));
    let declare = async |text: &SectionText| {
        world.at(0).declare_section(&node("n1"), &section, Some(text)).await.unwrap()
    };
    declare(&limited(3)).await;
    let switch = async |offset: i64, to: QueueSwitch| {
        world.at(offset).signed("ana@h").switch_queue(&queue("q"), to).await.unwrap()
    };
    assert_eq!(switch(1, QueueSwitch::Resume).await, QueueReply::Already);
    assert_eq!(switch(2, QueueSwitch::Pause).await, QueueReply::Done);
    assert_eq!(switch(3, QueueSwitch::Pause).await, QueueReply::Already);
    assert_eq!(record(&world, "q").await.paused, Some((t(2), "ana@h".to_owned())));
    declare(&limited(4)).await;
    assert!(record(&world, "q").await.settings.is_paused, "an edit of the limit does not end it");
    assert_eq!(
        world.at(6).declare_section(&node("n1"), &section, None).await.unwrap(),
        DeclareReply::Kept
    );
    assert_eq!(switch(7, QueueSwitch::Resume).await, QueueReply::Done);
    assert!(!record(&world, "q").await.settings.is_paused);
}

#[tokio::test]
async fn a_queue_nobody_declared_is_unknown() {
    let world = World::new();
    let before = world.snapshot();
    let plain = QueueSettings::default();
    let wanted = QueueSettings { limit: Some(1), ..plain };
    let change = QueueChange { settings: wanted, named: [QueueKey::Limit].into() };
    assert_eq!(world.store.set_queue(&queue("q"), &change).await.unwrap(), QueueReply::Unknown);
    assert_eq!(
        world.store.switch_queue(&queue("q"), QueueSwitch::Pause).await.unwrap(),
        QueueReply::Unknown
    );
    assert_eq!(world.snapshot(), before);
    assert_eq!(
        world.store.set_queue(&queue("default"), &change).await.unwrap(),
        QueueReply::Done,
        "it is always there"
    );
    assert_eq!(world.raw::<String>("HGET", "queues", &["default"]), "32");
}
