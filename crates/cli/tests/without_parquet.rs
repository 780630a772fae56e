//! A knee of `make run` on Parquet.

use std::fs;
use std::process::Command;

#[test]
fn parquet_is_said_to_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let knee = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        let output = command.args(args).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let says = "this knee is built without Parquet, as make run builds it: run make build";
    assert!(knee(&["run", "two-flows", "--format", "parquet"]).contains(says));
    fs::create_dir(dir.path().join("two")).unwrap();
    let manifest = r#"{ "experiment": "two", "tables": "parquet", "cases": ["cubic"] }"#;
    fs::write(dir.path().join("two/manifest.json"), manifest).unwrap();
    fs::write(dir.path().join("two/runs.parquet"), "PAR1").unwrap();
    fs::write(dir.path().join("two/runs.journal"), "").unwrap();
    assert!(knee(&["compare", "two", "two"]).contains(says));
    let again = ["run", "two-flows", "--continue", "-o", "two"];
    assert!(knee(&again).contains(says));
}
