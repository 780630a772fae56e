//! Pages that one reads once: short sentences, the field's words, and figures of how hard each page is.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "all of this is test code")]

mod plain;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use plain::{breaches, sentences, words};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

const README: &str = "README.md";
const GLOSSARY: &str = "docs/glossary.md";
const MOST_LINES_OF_README: usize = 150;
const MOST_WORDS_OF_README: usize = 900;

/// Abbreviations that need no glossary: units, computing in general, names of files and columns, of conferences and programs.
const COMMON: &str = "ACM API HPCC ARCHITECTURE ARP BSD BSDCan CHANGELOG CONTRIBUTING CPU CSV CycloneDX DuckDB FIFO FreeBSD GB GCC GHz GIMPLE HTML HTTP ICMP ID IEEE INFOCOM \
    IP IPv4 IPv6 JSON KVM KiB L4STeam LEB128 LICENSE MAC MB MHz MiB MLCommons GiB NAME OK OTHER PID PNG PyTorch README RFC SBOM SECURITY SHA SHA256SUMS SIGCOMM SIGTERM SSH \
    SVG TCP TOML TUN UDP URL UTF VL2 CRC AM PM \
    ALGORITHM CWND DELIVERY INSIDE KIND LOCAL NETNS NOW PACING PEER RETRANS SRTT SSTHRESH STATE TREE VARIANT VERSION DIFFER FILE \
    ENTRY HOST LINK SWITCH DIR II III CPython PyArrow";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Pages of the root and of `docs`; not what a command writes (`keys.md`, `support.md`), nor `notebook` and decisions, which keep their date's words.
fn pages() -> Vec<(String, String)> {
    let of_folder = |folder: &'static str| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        names
            .filter(|name| name.ends_with(".md") && !["keys.md", "support.md"].contains(&&**name))
            .map(move |name| format!("{folder}/{name}"))
    };
    let mut names: Vec<String> = ["docs", "docs/algorithms"]
        .into_iter()
        .flat_map(of_folder)
        .chain([README, "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned))
        .collect();
    names.sort();
    let read = |name: String| {
        let text = fs::read_to_string(root().join(&name)).unwrap();
        (name, text)
    };
    names.into_iter().map(read).collect()
}

/// The paragraphs, items and cells of a page, as text; code is one word.
fn passages(page: &str) -> Vec<String> {
    let mut passages = vec![String::new()];
    let mut is_code = false;
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Start(
                Tag::Paragraph | Tag::Item | Tag::TableCell | Tag::Heading { .. } | Tag::List(_),
            ) => passages.push(String::new()),
            Event::Text(text) if !is_code => passages.last_mut().unwrap().push_str(&text),
            Event::Code(_) => passages.last_mut().unwrap().push_str("code"),
            Event::SoftBreak | Event::HardBreak => passages.last_mut().unwrap().push(' '),
            _ => {}
        }
    }
    passages.retain(|passage| !passage.trim().is_empty());
    passages
}

/// Groups of vowels, as Flesch's formula wants them; a last e is silent.
fn syllables(word: &str) -> usize {
    let word = word.to_lowercase();
    let letters = word.trim_end_matches(|letter: char| !letter.is_alphabetic());
    let letters = letters.strip_suffix('e').unwrap_or(letters);
    let is_vowel = |letter: char| "aeiouy".contains(letter);
    let groups = letters.split(|letter| !is_vowel(letter)).filter(|group| !group.is_empty());
    groups.count().max(1)
}

/// What is wrong with a page, and its figures.
fn read(page: &str) -> (Vec<String>, String) {
    let mut wrong = Vec::new();
    let (mut sentence_count, mut word_count, mut syllable_count) = (0, 0, 0);
    for passage in passages(page) {
        wrong.extend(breaches(&passage));
        for sentence in sentences(&passage) {
            let count = words(sentence).count();
            sentence_count += 1;
            word_count += count;
            syllable_count += words(sentence).map(syllables).sum::<usize>();
        }
    }
    let (of_sentence, of_word) = (
        word_count as f64 / f64::from(sentence_count.max(1)),
        syllable_count as f64 / word_count.max(1) as f64,
    );
    let ease = 206.835 - 1.015 * of_sentence - 84.6 * of_word;
    (wrong, format!("{word_count:6} words  {of_sentence:5.1} a sentence  ease {ease:5.1}"))
}

#[test]
fn pages_are_read_once() {
    let mut wrong = Vec::new();
    for (name, text) in pages() {
        let (breaches, figures) = read(&text);
        println!("{name:28} {figures}  {} to mend", breaches.len());
        wrong.extend(breaches.into_iter().map(|breach| format!("{name}: {breach}")));
    }
    assert!(wrong.is_empty(), "say it in plainer words:\n  {}", wrong.join("\n  "));
}

/// Words with two capitals and more, without the ending of a plural or a participle.
fn abbreviations(passage: &str) -> impl Iterator<Item = &str> {
    let letters = passage.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    // With an underscore it is a name of code.
    let is_one = |word: &&str| {
        if word.contains('_') {
            return false;
        }
        let capitals = word.chars().filter(|letter| letter.is_uppercase()).count();
        capitals >= 2 && word.starts_with(|letter: char| letter.is_uppercase())
    };
    letters.filter(is_one).map(|word| {
        let whole = word.strip_suffix("ed").or_else(|| word.strip_suffix('s'));
        whole.filter(|whole| !whole.ends_with(char::is_lowercase)).unwrap_or(word)
    })
}

#[test]
fn glossary_has_every_abbreviation_of_the_pages() {
    let glossary = fs::read_to_string(root().join(GLOSSARY)).unwrap();
    let known: BTreeSet<&str> = abbreviations(&glossary).chain(COMMON.split_whitespace()).collect();
    let mut absent = BTreeSet::new();
    for (name, text) in pages() {
        for passage in passages(&text) {
            let new = abbreviations(&passage).filter(|word| !known.contains(word));
            absent.extend(new.map(|word| format!("{name}: {word}")));
        }
    }
    assert!(absent.is_empty(), "explain in {GLOSSARY}, or add to COMMON here:\n{absent:#?}");
}

#[test]
fn abbreviations_are_words_of_capitals() {
    let found: Vec<_> = abbreviations("RTTs of SACKed FreeBSD hosts, TCP-NV, A, CoDel").collect();
    assert_eq!(found, ["RTT", "SACK", "FreeBSD", "TCP", "NV", "CoDel"]);
}

#[test]
fn readme_is_read_in_three_minutes() {
    let text = fs::read_to_string(root().join(README)).unwrap();
    let (lines, words) = (text.lines().count(), text.split_whitespace().count());
    assert!(lines <= MOST_LINES_OF_README, "{lines} lines");
    assert!(words <= MOST_WORDS_OF_README, "{words} words");
}

#[test]
fn sentences_and_words_are_counted_as_a_reader_would() {
    let page = "# One\n\nTwo `a b c` words. Is 1.5 one\nword? \n\n```\nnot this\n```\n\n| a | b c. |\n|---|---|\n";
    let passages = passages(page);
    assert_eq!(passages, ["One", "Two code words. Is 1.5 one word?", "a", "b c."]);
    assert_eq!(sentences(&passages[1]), ["Two code words.", "Is 1.5 one word?"]);
    assert_eq!(["the", "queue", "retransmission"].map(syllables), [1, 1, 4]);
    let long = format!("{} end.", "word ".repeat(30));
    assert_eq!(read(&long).0.len(), 1);
    assert_eq!(read("It is sent again.").0.len(), 1);
}
