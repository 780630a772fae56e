//! What makes a sentence easy to read: few words, and the field's own.

/// More words than a reader takes in at once.
pub(crate) const MOST_WORDS_OF_A_SENTENCE: usize = 30;

/// Home-made words, and the plain ones.
pub(crate) const WORDS: &[(&str, &str)] = &[
    ("sent again", "retransmitted"),
    ("on its way", "in flight"),
    ("on their way", "in flight"),
    ("needless repetition", "spurious retransmission"),
    ("goes by", "congestion signal"),
    ("whoever", "name the actor"),
    ("that nobody", "say what it is"),
    ("finds out whether", "detects"),
    ("takes away", "removes"),
    ("is there already", "exists"),
    ("comes about", "is established"),
    ("interrupts wait", "interrupt coalescing"),
    ("what goes wrong", "failures"),
    ("held against", "checked against, compared with"),
    ("by lot", "at random"),
    ("yardstick", "reference"),
    ("is told of", "gets"),
    ("taken away", "removed"),
    ("canary", "lateness probe"),
    ("of its own accord", "by itself"),
];

/// The sentences of a passage: up to a full stop, a question mark or a colon before a space.
pub(crate) fn sentences(passage: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, _) in passage.match_indices(['.', '?', '!', ':', ';']) {
        let ends = passage[at + 1..].starts_with([' ', ')', '"']) || at + 1 == passage.len();
        let is_short_form = ["e.g", "i.e", "vs", "cf"].iter().any(|it| passage[..at].ends_with(it));
        if ends && !is_short_form {
            sentences.push(passage[from..=at].trim());
            from = at + 1;
        }
    }
    sentences.push(passage[from..].trim());
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// The words of a text: what has a letter or a digit.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric))
}

/// Home-made words and long sentences of a passage.
pub(crate) fn breaches(passage: &str) -> Vec<String> {
    let lower = passage.to_lowercase();
    let ours = WORDS.iter().filter(|(ours, _)| lower.contains(ours));
    let mut wrong: Vec<_> = ours.map(|(ours, fields)| format!("\"{ours}\": {fields}")).collect();
    for sentence in sentences(passage) {
        let count = words(sentence).count();
        if count > MOST_WORDS_OF_A_SENTENCE {
            wrong.push(format!("{count} words: {sentence}"));
        }
    }
    wrong
}
