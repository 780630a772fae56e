//! Tests of the table and of the live table on screens of many sizes, without a terminal or a kernel.

use std::time::Instant;

use knee_algo::TcpSock;
use knee_bpf::{Connection, State, Value};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::{App, Reaction};
use super::rows::{Column, Row, write_json};
use super::screen::{draw, fit};
use super::table;

fn row(number: u16, algorithm: &str) -> Row {
    let sock = TcpSock {
        snd_cwnd: 40 + u32::from(number),
        snd_ssthresh: if number == 1 { knee_algo::INFINITE_SSTHRESH } else { 30 },
        srtt_us: 1250 << 3,
        min_rtt_us: 900,
        sk_pacing_rate: 125_000_000,
        delivered: 1000,
        delivered_ce: 125,
        icsk_ca_state: if number == 2 { 2 } else { 0 },
        mss_cache: 1448,
        ..TcpSock::default()
    };
    let alpha = Value { name: "alpha".to_owned(), unit: "1/1024", number: 162, is_main: true };
    let rest = Value { name: "rest".to_owned(), unit: "", number: -7, is_main: false };
    Row {
        connection: Connection {
            netns: knee_netns::Id { device: 4, inode: 1 },
            cookie: u64::from(number),
            cgroup_id: None,
            uid: 0,
            local: format!("10.0.0.1:{}", 40_000 + number).parse().unwrap(),
            remote: format!("10.0.0.{}:80", number + 1).parse().unwrap(),
            state: State::Established,
            algorithm: algorithm.to_owned(),
            needs_ecn: true,
            map_id: Some(7),
            sock,
            bytes_acked: 1_448_000,
            total_retrans: 3,
            delivery_rate_bytes_per_sec: Some(117_625_000 * u64::from(number)),
            delivery_rate_is_app_limited: number == 1,
            jiffies: 0,
            hz: 250,
        },
        netns: "blue".to_owned(),
        inside: vec![alpha, rest],
        interval: Some((100, 25)),
    }
}

fn app(rows: u16) -> App {
    let mut app = App::new(false, false);
    app.take((1..=rows).map(|number| row(number, "knee_dctcp")).collect(), Instant::now());
    app
}

fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let cells = terminal.backend().buffer().content();
    let line = |cells: &[ratatui::buffer::Cell]| {
        cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
    };
    cells.chunks(usize::from(width.max(1))).map(line).collect()
}

fn press(app: &mut App, keys: &str) {
    for letter in keys.chars() {
        app.key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE));
    }
}

fn as_json(row: &Row) -> serde_json::Value {
    let mut text = String::new();
    write_json(&mut text, row);
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn texts_of_any_origin_stay_json() {
    let mut one = row(1, "a\"b\\c\n\u{1b}");
    one.netns = "\u{e4}\"".to_owned();
    let json = as_json(&one);
    assert_eq!(json["algorithm"], one.connection.algorithm.as_str());
    assert_eq!(json["netns"], one.netns.as_str());
}

#[test]
fn the_table_has_what_people_look_for() {
    let text = table(&[row(2, "knee_dctcp"), row(1, "knee_dctcp")], false);
    assert_eq!(
        text,
        "\
PEER         LOCAL           ALGORITHM   STATE      CWND  SSTHRESH     SRTT  MIN_RTT     PACING    DELIVERY  RETRANS     CE  INSIDE
10.0.0.3:80  10.0.0.1:40002  knee_dctcp  ESTAB CWR    42        30  1.25 ms   900 us  1.00 Gbps   1.88 Gbps        3  12.5%  alpha 0.158
10.0.0.2:80  10.0.0.1:40001  knee_dctcp  ESTAB        41         -  1.25 ms   900 us  1.00 Gbps  941 Mbps a        3  12.5%  alpha 0.158
"
    );
}

#[test]
fn json_has_raw_numbers_and_null_for_what_is_not_known() {
    let json = as_json(&row(1, "knee_dctcp"));
    assert_eq!(json["cwnd_pkts"], 41);
    assert!(json["ssthresh_pkts"].is_null());
    assert_eq!(json["delivery_rate_bps"], 941_000_000);
    assert_eq!(json["inside"][0]["value"], 162);
    assert_eq!(json["inside"][0]["unit"], "1/1024");
    assert_eq!(json["inside"][1]["value"], -7);
}

#[test]
fn a_wide_screen_has_all_columns() {
    let lines = screen(&mut app(2), 150, 6);
    assert_eq!(lines[0], "knee top  2 connections of knee's  by DELIVERY");
    for column in Column::ALL.into_iter().filter(|column| *column != Column::Netns) {
        assert!(lines[1].contains(column.title()), "{column:?} in {}", lines[1]);
    }
    assert!(lines[2].starts_with("10.0.0.3:80"), "{lines:?}");
    assert!(lines[2].contains("25.0%") && lines[2].ends_with("alpha 0.158"), "{lines:?}");
    assert!(lines[3].starts_with("10.0.0.2:80"), "{lines:?}");
    assert!(lines[5].starts_with("q quit"), "{lines:?}");
}

#[test]
fn a_narrow_screen_leaves_out_what_can_be_spared() {
    let lines = screen(&mut app(2), 80, 6);
    for title in ["PEER", "ALGORITHM", "CWND", "SRTT", "DELIVERY", "CE NOW", "INSIDE"] {
        assert!(lines[1].contains(title), "{title} in {}", lines[1]);
    }
    assert!(!lines[1].contains("LOCAL"), "{}", lines[1]);
    assert!(lines[2].ends_with("alpha 0.158"), "{}", lines[2]);
    let all: Vec<_> = Column::ALL.into_iter().map(|column| (column, 10)).collect();
    assert_eq!(fit(all.clone(), 1000).len(), Column::ALL.len());
    assert_eq!(fit(all, 34).len(), 3, "peer, algorithm and cwnd stay");
    // At any width, the shown columns are whole. Only the inside is cut.
    let widths = [18, 18, 12, 10, 6, 9, 8, 8, 10, 10, 7, 6, 6, 40];
    for room in 20..200 {
        let all = Column::ALL.into_iter().zip(widths).collect();
        let shown = fit(all, room);
        let needed = shown.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
        assert!(needed <= room, "{room}: {shown:?}");
        for (column, width) in shown {
            let whole = Column::ALL.into_iter().zip(widths).find(|(one, _)| *one == column);
            assert!(column == Column::Inside || whole.unwrap().1 == width, "{room}: {column:?}");
        }
    }
}

#[test]
fn no_screen_is_too_small_or_too_large() {
    for rows in [0, 1, 200] {
        for (width, height) in
            [(0, 0), (1, 1), (19, 50), (20, 4), (21, 3), (40, 5), (300, 4), (500, 120)]
        {
            let mut app = app(rows);
            let lines = screen(&mut app, width, height);
            if width >= 20 && height >= 4 {
                assert!(lines[0].starts_with("knee top"), "{width} x {height}: {lines:?}");
            }
            app.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
            screen(&mut app, height, width);
        }
    }
    assert_eq!(screen(&mut app(1), 19, 3)[0], "too small");
}

#[test]
fn scrolling_ends_where_the_rows_end() {
    let mut app = app(30);
    screen(&mut app, 100, 13);
    assert_eq!(app.room, 10);
    let press = |app: &mut App, code| app.key(KeyEvent::new(code, KeyModifiers::NONE));
    press(&mut app, KeyCode::PageDown);
    press(&mut app, KeyCode::Down);
    assert_eq!(app.first, 11);
    // The fastest connections come first: 30, 29, ...
    assert!(screen(&mut app, 100, 13)[2].starts_with("10.0.0.20:80"));
    press(&mut app, KeyCode::End);
    assert_eq!(app.first, 20);
    press(&mut app, KeyCode::PageDown);
    assert_eq!(app.first, 20);
    assert!(screen(&mut app, 100, 13)[11].starts_with("10.0.0.2:80"));
    // If the screen grows or rows disappear, no gap remains at the end.
    assert!(screen(&mut app, 100, 33)[2].starts_with("10.0.0.31:80"));
    press(&mut app, KeyCode::Home);
    press(&mut app, KeyCode::Up);
    assert_eq!(app.first, 0);
}

#[test]
fn words_narrow_it_and_esc_goes_back() {
    let mut app = App::new(true, false);
    app.take(vec![row(1, "knee_dctcp"), row(2, "cubic"), row(3, "cubic")], Instant::now());
    press(&mut app, "/CUBIC :40003q");
    assert_eq!(screen(&mut app, 100, 6)[5], "filter: CUBIC :40003q_");
    assert_eq!(app.shown().len(), 0);
    app.key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE));
    assert_eq!(app.shown().len(), 1);
    app.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    let lines = screen(&mut app, 100, 6);
    assert_eq!(lines[0], "knee top  1 of 3 connections with \"CUBIC :40003\"  by DELIVERY");
    let esc = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(app.key(esc), Reaction::Nothing);
    assert_eq!(app.shown().len(), 3);
    press(&mut app, "/blue 10.0.0.3:");
    app.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    assert_eq!(app.shown().len(), 1, "namespace and address");
    app.key(esc);
    assert_eq!(app.key(esc), Reaction::Quit);
}

#[test]
fn keys_sort_pause_and_quit() {
    let mut app = app(3);
    let peers = |app: &App| -> Vec<u16> {
        app.shown().iter().map(|row| row.connection.cookie as u16).collect()
    };
    assert_eq!(peers(&app), [3, 2, 1]);
    press(&mut app, "r");
    assert_eq!(peers(&app), [1, 2, 3]);
    press(&mut app, "s");
    assert_eq!((app.sort, app.is_reversed), (Column::Retrans, false));
    assert_eq!(peers(&app), [1, 2, 3], "equal ones keep an order");
    press(&mut app, "SSSSSSSSSSS");
    assert_eq!(app.sort, Column::Inside, "round, and without the namespace");
    press(&mut app, "s");
    assert_eq!((app.sort, peers(&app)), (Column::Peer, vec![1, 2, 3]));
    press(&mut app, "p");
    assert!(screen(&mut app, 100, 6)[0].ends_with("PAUSED"));
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('a'), KeyModifiers::NONE)), Reaction::Read);
    assert!(app.all);
    let quit = [
        KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE),
        KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
    ];
    assert_eq!(quit.map(|key| app.key(key)), [Reaction::Quit; 2]);
}

/// Values seen on a host: 1,193,629,732 and 127,304,660 packets, and 0x82205665 elsewhere.
#[test]
fn a_window_that_cannot_be_is_marked_and_null() {
    for pkts in [1_193_629_732, 127_304_660, 0x8220_5665] {
        let mut row = row(2, "knee_dctcp");
        row.connection.sock.snd_ssthresh = pkts;
        assert_eq!(Column::Ssthresh.cell(&row), "?", "{pkts}");
        let json = as_json(&row);
        assert_eq!((json["ssthresh_pkts"].as_u64(), json["cwnd_pkts"].as_u64()), (None, Some(42)));
        assert_eq!(json["impossible"], serde_json::json!(["ssthresh_pkts"]));
        let text = table(std::slice::from_ref(&row), false);
        assert!(text.ends_with("skips calls of the algorithm (docs/kernels.md)\n"));
        let mut app = App::new(false, false);
        app.take(vec![row], Instant::now());
        assert!(screen(&mut app, 200, 10)[9].starts_with("?: impossible value"));
    }
    // 1 GB in flight in packets of usual size, and no ssthresh yet.
    for (pkts, cell) in [(741_500, "741500"), (knee_algo::INFINITE_SSTHRESH, "-")] {
        let mut row = row(2, "knee_dctcp");
        row.connection.sock.snd_ssthresh = pkts;
        assert_eq!(Column::Ssthresh.cell(&row), cell);
        assert_eq!(as_json(&row)["impossible"], serde_json::json!([]));
        assert!(!table(&[row], false).contains('?'));
    }
}
