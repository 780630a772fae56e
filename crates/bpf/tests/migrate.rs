//! Live connections and listeners get another congestion control, where that is safe.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use knee_algo::Algorithm;
use knee_bpf::{Connections, Embedded, Filter, Inside, Loaded, Migration, Outcome, Planned};
use knee_netns::FoundNamespace;
use knee_testbed::net::{Pair, Path, chosen, connect, listen, sysctl};
use knee_testbed::own_name;

fn dctcp(name: &str) -> Loaded {
    let params = Algorithm::by_name("dctcp").unwrap().default_params();
    Loaded::register_for_any_user(Embedded::by_name("dctcp").unwrap(), name, &params).unwrap()
}

fn transfer(from: &mut TcpStream, to: &mut TcpStream) {
    thread::scope(|scope| {
        scope.spawn(|| to.read_exact(&mut vec![0; 500_000]).unwrap());
        from.write_all(&vec![0; 500_000]).unwrap();
    });
}

/// The namespaces of the pair, client's first.
fn namespaces(pair: &Pair) -> [FoundNamespace; 2] {
    [&pair.client, &pair.server].map(|host| host.run(knee_netns::current).unwrap())
}

fn plan(migration: &Migration, namespaces: &[FoundNamespace]) -> Vec<Planned> {
    let reader = Connections::open().unwrap();
    let connections = namespaces.iter().flat_map(|one| reader.read_in(one).unwrap()).collect();
    migration.plan(connections)
}

fn outcomes(plan: &[Planned]) -> Vec<Outcome> {
    plan.iter().map(|one| one.outcome).collect()
}

#[test]
fn connections_with_ecn_move_and_go_on() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let loaded = dctcp(own_name("move"));
    let marks = Path { mark_period: 10, mark_burst: 1, ..Path::default() };
    let pair = Pair::new("reno", marks, Path::default());
    let namespaces = namespaces(&pair);
    let listener = listen(&pair);
    let mut ends = [connect(&pair, &listener), connect(&pair, &listener)];
    for (client, server) in &mut ends {
        transfer(client, server);
    }
    let (other, closing) = (listen(&pair), listen(&pair));
    let (elsewhere, _its_end) = connect(&pair, &other);
    let gone = connect(&pair, &closing);

    // To one of the listeners only: both ends of a connection have that port, on one side each.
    let port = Some(listener.local_addr().unwrap().port());
    let clients = Filter { remote_port: port, ..Filter::default() };
    let servers = Filter { local_port: port, ..Filter::default() };
    for filter in [clients, servers] {
        assert_eq!(chosen(&ends[1].1), "reno", "planned or of the other end only");
        let migration = Migration::new("reno", loaded.name(), filter, false).unwrap();
        assert!(migration.needs_ecn());
        let planned = plan(&migration, &namespaces);
        assert_eq!(outcomes(&planned), [Outcome::Planned; 2], "{planned:?}");
        let moved = migration.run(planned, &namespaces).unwrap();
        assert_eq!(outcomes(&moved), [Outcome::Moved; 2]);
    }
    assert_eq!(chosen(&elsewhere), "reno");
    for (client, server) in &mut ends {
        assert_eq!([chosen(client), chosen(server)], [own_name("move"), own_name("move")]);
        transfer(client, server);
    }
    // The marks of the path reach the new algorithm.
    let reader = Connections::open().unwrap();
    let mut inside = Inside::new();
    let mut alphas = 0;
    for connection in reader.read_in(&namespaces[0]).unwrap() {
        for value in inside.of(&connection).unwrap() {
            alphas += usize::from(value.name == "alpha" && (1..1024).contains(&value.number));
        }
    }
    assert_eq!(alphas, 2);

    // One that closes between plan and move.
    let port = Some(closing.local_addr().unwrap().port());
    let filter = Filter { remote_port: port, ..Filter::default() };
    let migration = Migration::new("reno", loaded.name(), filter, false).unwrap();
    let planned = plan(&migration, &namespaces);
    assert_eq!(outcomes(&planned), [Outcome::Planned]);
    drop(gone);
    let left = migration.run(planned, &namespaces).unwrap();
    assert!(matches!(outcomes(&left)[..], [Outcome::Gone]), "{left:?}");
}

#[test]
fn a_connection_without_ecn_is_left_alone() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let loaded = dctcp(own_name("noecn"));
    let pair = Pair::new("reno", Path::default(), Path::default());
    sysctl(&pair.server, "tcp_ecn", "0");
    let namespaces = namespaces(&pair);
    let listener = listen(&pair);
    let (client, _server) = connect(&pair, &listener);
    let filter = Filter { remote: Some("10.99.0.0/24".parse().unwrap()), ..Filter::default() };
    let migration = Migration::new("reno", loaded.name(), filter, false).unwrap();
    let mut planned = plan(&migration, &namespaces);
    assert_eq!(outcomes(&planned), [Outcome::NoEcn; 2], "both ends, no listener");
    assert!(Outcome::NoEcn.is_skipped());
    assert_eq!(
        outcomes(&migration.run(planned.clone(), &namespaces).unwrap()),
        [Outcome::NoEcn; 2]
    );
    // A plan that is wrong does no harm either: the program looks for itself.
    planned[0].outcome = Outcome::Planned;
    planned[1].outcome = Outcome::Planned;
    assert_eq!(outcomes(&migration.run(planned, &namespaces).unwrap()), [Outcome::NoEcn; 2]);
    assert_eq!(chosen(&client), "reno");

    let to_cubic = Migration::new("reno", "reno", Filter::default(), false).unwrap();
    assert!(!to_cubic.needs_ecn());
    assert_eq!(outcomes(&plan(&to_cubic, &namespaces)), [Outcome::Planned; 2]);
}

#[test]
fn a_listener_opened_before_the_load_accepts_ecn_after_its_move() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let pair = Pair::new("reno", Path::default(), Path::default());
    let listener = listen(&pair);
    let loaded = dctcp(own_name("listen"));
    sysctl(&pair.client, "tcp_congestion_control", loaded.name());
    let namespaces = namespaces(&pair);
    let (client, server) = connect(&pair, &listener);
    assert_eq!([chosen(&client), chosen(&server)], ["reno", "reno"], "refused, and fallen back");

    let migration = Migration::new("reno", loaded.name(), Filter::default(), true).unwrap();
    let planned = plan(&migration, &namespaces);
    assert_eq!(outcomes(&planned), [Outcome::Planned]);
    assert!(planned[0].connection.is_listener());
    assert_eq!(outcomes(&migration.run(planned, &namespaces).unwrap()), [Outcome::Moved]);
    assert_eq!([chosen(&client), chosen(&server)], ["reno", "reno"], "those that are there stay");

    let (client, server) = connect(&pair, &listener);
    assert_eq!([chosen(&client), chosen(&server)], [loaded.name(); 2]);
    let reader = Connections::open().unwrap();
    let with_ecn = namespaces.iter().flat_map(|one| reader.read_in(one).unwrap());
    assert_eq!(with_ecn.filter(|one| one.algorithm == loaded.name() && one.has_ecn()).count(), 2);
    // A namespace's default would keep the program alive.
    sysctl(&pair.client, "tcp_congestion_control", "reno");
}

#[test]
fn an_unknown_target_is_told_in_one_sentence() {
    let error = Migration::new("cubic", own_name("none"), Filter::default(), false).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("no algorithm named \"{}\" is registered", own_name("none"))),
        "{text}"
    );
    assert!(text.contains("reno") && !text.contains('\n'), "{text}");
    assert!(Migration::new("cubic", "much_too_long_a_name", Filter::default(), false).is_err());
}
