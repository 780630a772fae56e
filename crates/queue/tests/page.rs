//! Every discipline and every key of it stands on the page of queues.

use knee_queue::time::Rate;
use knee_queue::{Place, QueueConfig};

#[test]
fn the_page_has_every_key() {
    let page = include_str!("../../../docs/queues.md");
    let section = |kind: &str| {
        let after = page.split(&format!("\n## {kind}\n")).nth(1);
        let section = after.and_then(|after| after.split("\n## ").next());
        section.unwrap_or_else(|| panic!("docs/queues.md has no part on {kind}"))
    };
    let rate = Rate::from_bps(1_000_000_000).expect("above 0");
    for queue in QueueConfig::each(Place { frame_bytes: 1514, rate, has_burst: false }) {
        let mut text = section(queue.kind()).to_owned();
        if text.contains("The keys of codel") {
            text.push_str(section("codel"));
        }
        for key in queue.keys() {
            assert!(text.contains(&format!("`{key}`")), "{key} of {}", queue.kind());
        }
    }
}
