//! What files say of queues and groups, as it is kept for all nodes.

use schedd::domain::group::{GroupSettings, Turns};
use schedd::domain::ids::NodeName;
use schedd::domain::queue::QueueSettings;
use schedd::store::{DeclareReply, Section, SectionText};

use super::world::{World, name};

fn node(text: &str) -> NodeName {
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
    let turns = Turns { order: vec![name("a"), name("b")], gap: Turns::GAP, patience: Turns::PATIENCE };
    let alternate = GroupSettings::Alternate(turns);
    for node_name in ["n1", "n2"] {
        world.at(0).declare_section(&node(node_name), &queue_section, Some(&limited(3))).await.unwrap();
    }
    world.at(0).declare_section(&node("n1"), &group, Some(&SectionText::Group(alternate.clone()))).await.unwrap();
    assert_eq!(world.store.read_groups().await.unwrap().into_iter().next(), Some(("g".parse().unwrap(), alternate)));

    let withdraw =
        async |node_name: &str, section: &Section| world.at(0).declare_section(&node(node_name), section, None).await.unwrap();
    assert_eq!(withdraw("n1", &queue_section).await, DeclareReply::Kept);
    assert_eq!(limit(&world).await, Some(3));
    assert_eq!(withdraw("n2", &queue_section).await, DeclareReply::Withdrawn);
    assert_eq!(limit(&world).await, None);
    assert_eq!(world.raw::<String>("HGET", "queues", &["q"]), "32", "its runs are still looked for");
    assert_eq!(withdraw("n1", &group).await, DeclareReply::Withdrawn);
    assert!(world.store.read_groups().await.unwrap().is_empty());
    assert!(world.store.read_declared(&node("n1")).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_pause_in_a_file_ends_when_the_file_says_so_no_more() {
    let world = World::new();
    let section = Section::Queue("q".parse().unwrap());
    let paused = SectionText::Queue(QueueSettings { is_paused: true, ..QueueSettings::default() });
    world.at(7).declare_section(&node("n1"), &section, Some(&paused)).await.unwrap();
    let record = world.store.read_queue_settings(&["q".parse().unwrap()]).await.unwrap().remove(0);
    assert_eq!(record.paused, Some((super::world::t(7), "file of n1".to_owned())));
    assert!(record.settings.is_paused);
    world.at(8).declare_section(&node("n1"), &section, Some(&limited(1))).await.unwrap();
    assert!(!world.store.read_queue_settings(&["q".parse().unwrap()]).await.unwrap()[0].settings.is_paused);
}
