//! The numbers inside private states, under the names that files give them.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::fs;
use std::path::{Path, PathBuf};

use knee_algo::{Algorithm, Field, FieldKind, module};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules").join(name)
}

fn field<'a>(algorithm: &'a Algorithm, name: &str) -> &'a Field {
    let all = algorithm.state_fields();
    all.iter().find(|field| field.name() == name).unwrap_or_else(|| panic!("{name}: {all:?}"))
}

#[test]
fn every_algorithm_of_the_folder_tells_its_fields() {
    for algorithm in Algorithm::all() {
        let fields = algorithm.state_fields();
        assert_eq!(fields.is_empty(), algorithm.state_bytes() == 0, "{}", algorithm.name());
        let end = fields.iter().map(|field| field.bit_offset() + field.bits()).max();
        assert!(end.unwrap_or(0) <= algorithm.state_bytes() * 8, "{fields:?}");
        assert!(!algorithm.keeps_addresses(), "{}", algorithm.name());
    }
}

#[test]
fn a_modules_fields_are_those_of_its_struct() {
    let copa = module::load(&file("tcp_copa.c")).unwrap();
    assert_eq!(field(copa, "base_rtt_us.s[1].v").bit_offset(), 32 * 3);
    assert_eq!(*field(copa, "last_step").kind(), FieldKind::Signed);
    let (three, one) = (field(copa, "same_direction"), field(copa, "is_slow_start"));
    assert_eq!((three.bits(), one.bits()), (3, 1));
    assert_eq!(one.bit_offset(), three.bit_offset() + 3);
    let names = "COPA_UNDECIDED|COPA_UP|COPA_DOWN";
    assert_eq!(*field(copa, "direction").kind(), FieldKind::Named(names.to_owned()));
    assert_eq!(field(copa, "queueing_ns").bits(), 64);
    // They are what the module shows, and its Vegas struct is not.
    let shown: Vec<&str> = copa.diag().iter().map(|diag| diag.name).collect();
    assert!(shown.contains(&"velocity") && !shown.contains(&"rttcnt"), "{shown:?}");
    // Of DCTCP's the names are its own: they stand first.
    let dctcp = module::load(&file("tcp_dctcp.c")).unwrap();
    let shown: Vec<&str> = dctcp.diag().iter().map(|diag| diag.name).collect();
    assert_eq!(shown[..2], ["alpha", "ce_state"]);
    assert!(shown.contains(&"dctcp_alpha") && shown.contains(&"plb.pause_until"), "{shown:?}");
}

#[test]
fn a_line_of_the_file_says_which_struct_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(file("tcp_delay.c")).unwrap();
    fs::copy(file("tcp_delay.h"), dir.path().join("tcp_delay.h")).unwrap();
    let own =
        "/* knee: state struct other */\nstruct other { u8 first; s16 second; void *third; };\n";
    let path = dir.path().join("tcp_stated.c");
    fs::write(&path, text.replace("static int alpha = 2;", &format!("{own}static int alpha = 2;")))
        .unwrap();
    let stated = module::load(&path).unwrap();
    let names: Vec<&str> = stated.state_fields().iter().map(Field::name).collect();
    assert_eq!(names, ["first", "second", "third"]);
    assert!(stated.keeps_addresses());
    let shown: Vec<&str> = stated.diag().iter().map(|diag| diag.name).collect();
    assert_eq!(shown, ["first", "second"], "an address says nothing");
}
