//! Every discipline and every key of it stands on the page of queues, and no other key.

use knee_queue::time::Rate;
use knee_queue::{PortProperties, QueueConfig};

#[test]
fn the_page_has_every_key_and_no_other() {
    let page = include_str!("../../../docs/queues.md");
    let section = |kind: &str| {
        let after = page.split(&format!("\n## {kind}\n")).nth(1);
        let section = after.and_then(|after| after.split("\n## ").next());
        section.unwrap_or_else(|| panic!("docs/queues.md has no part on {kind}"))
    };
    let rate = Rate::from_bps(1_000_000_000).expect("above 0");
    for queue in QueueConfig::each(PortProperties { frame_bytes: 1514, rate, has_burst: false }) {
        let mut text = section(queue.kind()).to_owned();
        if text.contains("The keys of codel") {
            text.push_str(section("codel"));
        }
        let mut keys = queue.keys();
        keys.sort_unstable();
        let mut named = named(&text);
        // It has neither a table nor a list.
        if queue.kind() == "droptail" && text.contains("`limit`") {
            named.push("limit");
        }
        named.sort_unstable();
        named.dedup();
        assert_eq!(named, keys, "{}", queue.kind());
    }
}

/// Keys in backticks, of the tables and of the list behind "Keys:".
fn named(text: &str) -> Vec<&str> {
    let tables = text.split("| key | default | meaning |\n| --- | --- | --- |\n").skip(1);
    let rows = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let lists = text.split("Keys:").skip(1).filter_map(|list| list.split([';', '|']).next());
    // What stands in brackets is a value.
    let outside =
        lists.flat_map(|list| list.split('(').map(|part| part.rsplit(')').next().unwrap_or(part)));
    cells.chain(outside).flat_map(|names| names.split('`').skip(1).step_by(2)).collect()
}
