//! Reports of captures: a directory as `knee pcap --csv` writes it, made up here.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Temp;
use crate::common::browser::{Browser, open};

const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
const MSS: u64 = 1448;

/// A flow of so many segments, 12 us apart, each acknowledged 100 us later; a second one that is small.
struct Made {
    segments: u64,
    has_packets: bool,
}

/// The segment that is retransmitted, by which packet, and the one whose ACK is late.
const AGAIN: u64 = 40;
const SPIKE: u64 = 70;

impl Made {
    fn write(&self, dir: &Path) {
        fs::create_dir_all(dir).expect("a directory");
        let put = |name: &str, text: &str| fs::write(dir.join(name), text).expect("a file");
        let bytes = self.segments * MSS;
        let end = BEGIN_NS + self.segments * 12_000 + 400_000;
        put(
            "flows.csv",
            &format!(
                "flow,connection,is_primary,point,direction,from,to,begin_ns,end_ns,bytes,bytes_sent,goodput_bps,segments,retransmitted,fast,rto,after_rto,tlp,unclear,spurious,out_of_order,rto_stall_ns,zero_windows,ce,ece_bytes,acked_bytes,rtt_min_ns,rtt_median_ns,rtt_p99_ns,rtt_max_ns,max_inflight_bytes,family,confidence\n\
                 1,1,true,0,a-to-b,10.0.0.1:1,10.0.0.2:80,{BEGIN_NS},{end},100,100,,1,0,0,0,0,0,0,0,0,0,0,0,0,100,,,,,100,unknown,0\n\
                 2,2,true,0,a-to-b,10.0.0.3:<b>,10.0.0.2:80,{BEGIN_NS},{end},{bytes},{bytes},964000000,{},1,1,0,0,0,0,1,0,0,0,0,14480,{bytes},100000,100000,100000,900000,14480,dctcp,0.85\n\
                 2,2,true,0,b-to-a,10.0.0.2:80,10.0.0.3:<b>,{BEGIN_NS},{end},0,0,,0,0,0,0,0,0,0,0,0,0,0,0,0,0,,,,,0,unknown,0\n",
                self.segments
            ),
        );
        let mut rounds = String::from(
            "flow,direction,begin_ns,duration_ns,bytes,acked_bytes,ece_bytes,segments,ce_segments,inflight_bytes,window_bytes,rate_bps,rtt_by_timestamps_min_ns,rtt_by_timestamps_mean_ns\n",
        );
        for round in 0..self.segments.div_ceil(8).min(1000) {
            let at = BEGIN_NS + round * 100_000;
            let _ = writeln!(
                rounds,
                "2,a-to-b,{at},100000,11584,11584,{},8,0,14480,65536,926720000,99000,101000",
                if round == 3 { 5792 } else { 0 }
            );
        }
        put("rounds.csv", &rounds);
        put(
            "events.csv",
            "flow,direction,kind,at_ns,number,earlier\n2,a-to-b,spurious,1700000000000900000,90,41\n",
        );
        let finding = serde_json::json!({
            "kind": "tail-loss", "flows": [2], "summary": "Half <i>lost</i>.", "usually_means": "A short buffer.", "try_this": "More of it.",
            "severity": "severe", "confidence": 0.9,
            "evidence": (0..9).map(|i| serde_json::json!({"flow": 2, "number": 41 + 2 * i, "says": "retransmitted"})).collect::<Vec<_>>(),
        });
        let about = serde_json::json!({
            "files": [{"name": "there/x.pcap", "packets": 3 * self.segments, "tcp_packets": 2 * self.segments,
                "begin_ns": BEGIN_NS, "end_ns": end, "unread": {"broken": "the file is cut"}}],
            "points": [{"file": 0, "name": "there/x.pcap"}], "flows": 2, "findings": [finding], "views": [], "packets_not_kept": 0,
        });
        put("findings.json", &about.to_string());
        if self.has_packets {
            put("packets.csv", &self.packets());
        }
    }

    /// Segment `i` is packet `2 i + 1`, its ACK packet `2 i + 2`.
    fn packets(&self) -> String {
        let mut out = String::from(
            "flow,number,at_ns,direction,seq,len,ack,flags,ecn,window_bytes,sacks,inflight_bytes,rtt_ns,acked_by,repeats,why,repeated_by\n",
        );
        for i in 0..self.segments {
            let (at, seq, number) = (BEGIN_NS + i * 12_000, 1 + i * MSS, 2 * i + 1);
            let why = if i == AGAIN / 2 { "fast-retransmission" } else { "" };
            let rtt = if i == SPIKE { 900_000 } else { 100_000 };
            let _ = writeln!(
                out,
                "2,{number},{at},a-to-b,{seq},{MSS},1,A,ect0,65536,,14480,{rtt},{},,{why},",
                number + 1
            );
            let flags = if (24..32).contains(&i) { "AE" } else { "A" };
            let sacks = if i == 25 { "60000-61448" } else { "" };
            let _ = writeln!(
                out,
                "2,{},{},b-to-a,1,0,{},{flags},not-ect,65536,{sacks},,,,,,",
                number + 1,
                at + 100_000,
                seq + MSS
            );
        }
        out
    }
}

fn written(temp: &Temp, made: &Made) -> PathBuf {
    made.write(&temp.join("out"));
    let html = temp.join("report.html");
    knee_report::write(&temp.join("out"), &html).expect("a report");
    html
}

#[test]
fn findings_flows_and_what_could_not_be_read_are_in_the_page() {
    let temp = Temp::new();
    let html = written(&temp, &Made { segments: 100, has_packets: true });
    let text = fs::read_to_string(html).expect("is there");
    for wanted in [
        "<h1>Analysis of x.pcap</h1>",
        "the file is cut.",
        "Half &lt;i&gt;lost&lt;/i&gt;.",
        "A short buffer.",
        "More of it.",
        "data-flow=\"2\" data-number=\"41\"",
        "4 more",
        "10.0.0.3:&lt;b&gt; → 10.0.0.2:80",
        "1 fast, 1 of them spurious",
        "dctcp (85 %)",
        "Plots show 1 of 2 flows.",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    // The larger one comes first, though it began later.
    let row = |id: &str| text.find(id).expect("is in the table");
    assert!(row("10.0.0.3:&lt;b&gt; →") < row("10.0.0.1:1 →"));
}

#[test]
fn what_is_cut_or_missing_is_said_and_leaves_no_page() {
    let temp = Temp::new();
    let html = temp.join("report.html");
    for (file, text, wanted) in [
        ("findings.json", "{", "is not JSON"),
        ("findings.json", "{}", "has no list of findings"),
        ("flows.csv", "flow,point\n", "has no column \"direction\""),
        ("rounds.csv", "", "is empty"),
        ("packets.csv", "flow,number\n2,x\n", "has no column \"at_ns\""),
    ] {
        Made { segments: 20, has_packets: true }.write(&temp.join("out"));
        fs::write(temp.join("out").join(file), text).expect("is written");
        let said = knee_report::write(&temp.join("out"), &html).expect_err(file).to_string();
        assert!(said.contains(wanted) && said.contains(file), "{said}");
        assert!(!html.exists());
    }
    fs::remove_file(temp.join("out/rounds.csv")).expect("was there");
    Made { segments: 20, has_packets: true }.write(&temp.join("out"));
    let said = knee_report::write_figures(
        &temp.join("out"),
        &temp.join("figures"),
        None,
        &|_| unreachable!(),
    )
    .expect_err("is refused")
    .to_string();
    assert!(said.contains("leave out --figures"), "{said}");
}

const ROOT: &str = "document.querySelector('.capture')";

fn shown(browser: &mut Browser, html: &Path) {
    browser.resize(1400, 1000, false);
    browser.load(html);
    browser.eval(&format!("{ROOT}.scrollIntoView()"));
    browser.wait_for(&format!("{ROOT}.plots?.length === 5"));
    // The page has grown by the plots.
    browser.eval(&format!("{ROOT}.scrollIntoView()"));
}

/// Packets with data that are within the zoom.
fn visible(browser: &mut Browser) -> u64 {
    let count = format!(
        "(() => {{ const r = {ROOT}, x = r.plots[0].scales.x; return r.flow.data.t.filter(t => t * r.factor >= x.min && t * r.factor <= x.max).length }})()"
    );
    browser.eval(&count).as_u64().expect("a count")
}

#[test]
fn the_number_of_a_packet_leads_to_it_and_dragging_zooms_every_plot() {
    let Some(mut browser) = open("capture-zoom") else { return };
    let temp = Temp::new();
    let html = written(&temp, &Made { segments: 2000, has_packets: true });
    shown(&mut browser, &html);
    assert_eq!(visible(&mut browser), 2000);
    // Times are exact to the ns, and marks are where the files have them.
    let at = browser.eval(&format!("{ROOT}.flow.data.t[1999]"));
    assert_eq!(at.as_f64(), Some(1999.0 * 12_000.0));
    let flags = browser.eval(&format!("[20, 24, 25, 32].map(i => {ROOT}.flow.data.flags[i])"));
    assert_eq!(flags, serde_json::json!([1 + 64, 32, 32, 0]));
    assert_eq!(browser.eval(&format!("{ROOT}.flow.sacks.from[0]")).as_f64(), Some(60_000.0));

    browser.wait_for_drawing();
    let over = browser.eval("(() => { const r = document.querySelector('.u-over').getBoundingClientRect(); return [r.left, r.top + r.height / 2, r.width] })()");
    let part = |i: usize| over[i].as_f64().expect("a number");
    let (left, y, width) = (part(0), part(1), part(2));
    browser.mouse("mouseMoved", left + width * 0.25, y, 0);
    browser.mouse("mousePressed", left + width * 0.25, y, 1);
    browser.mouse("mouseMoved", left + width * 0.3, y, 1);
    browser.mouse("mouseMoved", left + width * 0.35, y, 1);
    browser.mouse("mouseReleased", left + width * 0.35, y, 1);
    let same =
        format!("new Set({ROOT}.plots.map(u => u.scales.x.min + ' ' + u.scales.x.max)).size === 1");
    browser.wait_for(&format!("{ROOT}.plots[0].scales.x.max < {ROOT}.whole.max * 0.5 && {same}"));
    let dragged = visible(&mut browser);
    assert!((150..260).contains(&dragged), "{dragged} packets in a tenth of the width");

    browser.eval("document.querySelector('a.packet').click()");
    browser.wait_for(&format!("{ROOT}.pointed === 20 * 12000 && {same}"));
    let near = visible(&mut browser);
    assert!((15..30).contains(&near), "{near} packets around the one that was named");
    // Each is drawn as a bar and a dot of its own.
    let drawn = browser.eval(&format!("(() => {{ const u = {ROOT}.plots[0]; u.setCursor({{left: u.valToPos(20 * 12000 * {ROOT}.factor, 'x'), top: 100}}); return document.querySelector('.said').textContent }})()"));
    let drawn = drawn.as_str().expect("a text");
    assert!(
        drawn.contains("packet 41 ")
            && drawn.contains("fast retransmission")
            && drawn.contains("spurious"),
        "{drawn}"
    );

    browser.eval("document.querySelector('[data-zoom=whole]').click()");
    browser.wait_for(&format!("{ROOT}.plots[0].scales.x.max === {ROOT}.whole.max && {same}"));
    for kind in ["in", "earlier", "later", "out"] {
        let before = browser.eval(&format!("{ROOT}.plots[0].scales.x.min"));
        browser.eval(&format!("document.querySelector('[data-zoom={kind}]').click()"));
        browser.wait_for(&format!("{ROOT}.plots[0].scales.x.min !== {before} && {same}"));
    }
    assert_eq!(browser.complaints(&html), Vec::<String>::new());
}

#[test]
fn fifty_thousand_packets_are_all_there_and_more_are_thinned_aloud() {
    let Some(mut browser) = open("capture-many") else { return };
    let temp = Temp::new();
    let html = written(&temp, &Made { segments: 50_000, has_packets: true });
    shown(&mut browser, &html);
    assert_eq!(visible(&mut browser), 50_000);
    assert!(!browser.eval("document.body.textContent").to_string().contains("packets are drawn"));

    let html = written(&temp, &Made { segments: 80_000, has_packets: true });
    shown(&mut browser, &html);
    let kept = visible(&mut browser);
    assert!((20_000..70_000).contains(&kept), "{kept}");
    let text = browser.eval("document.querySelector('.capture .meta').textContent").to_string();
    assert!(text.contains("packets are drawn: all retransmitted"), "{text}");
    // The one late ACK and the one retransmission are still there.
    let spike = browser.eval(&format!("Math.max(...{ROOT}.flow.data.rtt)"));
    assert_eq!(spike.as_f64(), Some(900_000.0));
    assert_eq!(browser.eval(&format!("{ROOT}.flow.data.flags.filter(f => f & 15).length")), 1);
    assert_eq!(browser.complaints(&html), Vec::<String>::new());
}

#[test]
fn without_packets_there_are_round_trips_and_every_plot_can_be_saved() {
    let Some(mut browser) = open("capture-rounds") else { return };
    let temp = Temp::new();
    let html = written(&temp, &Made { segments: 400, has_packets: false });
    browser.resize(390, 900, true);
    browser.load(&html);
    browser.eval(&format!("{ROOT}.scrollIntoView()"));
    browser.wait_for(&format!("{ROOT}.plots?.length === 4"));
    let beyond = browser.eval("document.documentElement.scrollWidth - innerWidth");
    assert!(beyond.as_i64() <= Some(0), "{beyond} px too wide");
    assert!(browser.eval("document.body.textContent").to_string().contains("--report OUT.html"));

    let html = written(&temp, &Made { segments: 400, has_packets: true });
    shown(&mut browser, &html);
    browser.eval("window.saved = []; URL.createObjectURL = blob => { saved.push(blob); return 'blob:none' }; HTMLAnchorElement.prototype.click = () => {}");
    for plot in 0..5 {
        for kind in ["svg", "csv"] {
            browser.eval(&format!(
                "saved.length = 0; document.querySelectorAll('.plot')[{plot}].querySelector('[data-save={kind}]').click()"
            ));
            browser.wait_for("saved.length === 1");
            let text = browser.eval("saved[0].text()");
            let text = text.as_str().expect("a text");
            if kind == "svg" {
                let whole = "saved[0].text().then(t => new DOMParser().parseFromString(t, 'image/svg+xml').querySelector('parsererror') === null)";
                assert_eq!(browser.eval(whole), true, "{text}");
                assert!(text.contains("<path") && !text.contains("NaN"), "{text}");
            } else {
                assert!(text.lines().count() > 20, "{text}");
            }
        }
    }
    assert_eq!(browser.complaints(&html), Vec::<String>::new());
}
