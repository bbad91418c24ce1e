use super::{fault, faults, good, job, queue};
use crate::config::FlowLimits;
use crate::domain::queue::lane::Priority;
use schedd_schedule::names::Label;

fn labels(text: &str) -> std::collections::BTreeSet<Label> {
    text.split_whitespace().map(|label| label.parse().unwrap()).collect()
}

#[test]
fn what_a_node_serves_and_up_to_which_load_is_read() {
    let config = good(
        "[daemon]\nqueues = ['mail', 'default']\nlabels = ['gpu', 'eu']\nmax_load = 7.5\nmin_free_memory = '512MiB'\nmax_running = 40\n\
         [queues.mail]\n",
    );
    assert_eq!(config.serving.serving.queues, Some([queue("default"), queue("mail")].into()));
    assert_eq!(config.serving.serving.labels, labels("eu gpu"));
    let flow =
        FlowLimits { max_load: Some(7.5), min_free_memory: Some(512 << 20), max_running: Some(40) };
    assert_eq!(config.serving.flow, flow);
    let plain = good("[daemon]\nmax_load = 8\n");
    assert_eq!((plain.serving.serving.queues, plain.serving.flow.max_load), (None, Some(8.0)));
}

#[test]
fn a_job_has_a_priority_and_labels_and_defaults_may_name_them() {
    let config = good(
        "[defaults]\npriority = -3\nrequires = ['eu']\n[jobs.a]\nshell = 'x'\n\
         [jobs.b]\nshell = 'x'\npriority = 10\nrequires = []\n[jobs.c]\nshell = 'x'\nrequires = 'gpu'\n",
    );
    let of = |name: &str| job(&config, name).lane().to_string();
    assert_eq!([of("a"), of("b"), of("c")], ["default!-3+eu", "default!10", "default!-3+gpu"]);
    assert_eq!(job(&config, "b").priority, Priority::new(10).unwrap());
}

#[test]
fn what_cannot_be_served_or_required_is_refused_with_what_is_wanted() {
    let daemon = |text: &str| fault(&format!("[daemon]\n{text}\n[queues.mail]\n"));
    for (text, words) in [
        (
            "queues = ['mall']",
            "daemon.queues[0]: queue \"mall\" is not declared: add [queues.mall] or name a declared queue; did you mean \"mail\"?",
        ),
        (
            "queues = []",
            "daemon.queues: found an empty list, wanted at least one queue; remove the key to serve all queues",
        ),
        ("queues = 'mail'", "wanted a list of queues such as [\"default\", \"mail\"]"),
        ("labels = ['GPU']", "label name \"GPU\" is not valid"),
        ("labels = ['a', 'a']", "found \"a\" twice, wanted each label once"),
        ("max_load = 0", "found integer 0, wanted a number such as 8, more than 0, at most 100000"),
        ("max_load = nan", "wanted a number such as 8, more than 0, at most 100000"),
        ("max_load = 1e400", "wanted a number such as 8, more than 0, at most 100000"),
        ("max_load = '8'", "wanted a number such as 8"),
        ("min_free_memory = 5", "wanted a size such as \"256MiB\""),
        ("max_running = 0", "wanted an integer from 1 to 100000"),
    ] {
        let message = daemon(text);
        assert!(message.contains(words), "{text}: {message}");
    }
    let many = (0..9).map(|n| format!("'l{n}'")).collect::<Vec<_>>().join(", ");
    for (text, words) in [
        ("priority = 11", "found integer 11, wanted an integer from -10 to 10"),
        ("priority = '5'", "wanted an integer from -10 to 10"),
        ("requires = [5]", "wanted a string such as \"gpu\""),
        (&*format!("requires = [{many}]"), "found 9 labels, wanted at most 8"),
    ] {
        let message = faults(&format!("[jobs.a]\nshell = 'x'\n{text}\n"));
        assert!(message.len() == 1 && message[0].contains(words), "{text}: {message:?}");
    }
}
