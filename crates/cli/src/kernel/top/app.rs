//! State of the live table, and its reaction to keys. It is independent of the terminal.

use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::rows::{Column, Row};

/// Reaction of the event loop to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    Nothing,
    /// Take a new reading now.
    Read,
    Quit,
}

pub(super) struct App {
    rows: Vec<Row>,
    pub(super) read_at: Option<Instant>,
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    pub(super) is_paused: bool,
    /// Whether to show connections of all algorithms.
    pub(super) all: bool,
    pub(super) with_netns: bool,
    /// Words that a shown row must contain.
    pub(super) words: String,
    /// Whether typed characters go into `words`.
    pub(super) is_typing: bool,
    /// Index of the first row on the screen.
    pub(super) first: usize,
    /// Rows that fit on the screen, as last drawn.
    pub(super) room: usize,
}

impl App {
    pub(super) fn new(all: bool, with_netns: bool) -> App {
        App {
            rows: Vec::new(),
            read_at: None,
            sort: Column::Delivery,
            is_reversed: false,
            is_paused: false,
            all,
            with_netns,
            words: String::new(),
            is_typing: false,
            first: 0,
            room: 0,
        }
    }

    /// Takes over a new reading.
    pub(super) fn take(&mut self, rows: Vec<Row>, at: Instant) {
        self.rows = rows;
        self.read_at = Some(at);
        self.order();
    }

    /// Returns the number of connections, filtered or not.
    pub(super) fn total(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows that contain the words, in order.
    pub(super) fn shown(&self) -> Vec<&Row> {
        let words: Vec<String> = self.words.split_whitespace().map(str::to_lowercase).collect();
        let has = |row: &&Row| {
            let of_it = [
                row.connection.algorithm.to_lowercase(),
                row.connection.local.to_string(),
                row.connection.remote.to_string(),
                row.netns.to_lowercase(),
            ];
            words.iter().all(|word| of_it.iter().any(|text| text.contains(word.as_str())))
        };
        self.rows.iter().filter(has).collect()
    }

    fn order(&mut self) {
        let (sort, is_reversed) = (self.sort, self.is_reversed);
        self.rows.sort_by(|a, b| {
            let order = sort.order(a, b);
            let order = if is_reversed { order.reverse() } else { order };
            // Equal rows keep their order from one reading to the next.
            order.then_with(|| a.connection.cookie.cmp(&b.connection.cookie))
        });
    }

    /// Sorts by the column right or left of the current one.
    fn sort_by_neighbour(&mut self, is_right: bool) {
        let columns: Vec<Column> = Column::ALL
            .into_iter()
            .filter(|column| self.with_netns || *column != Column::Netns)
            .collect();
        let at = columns.iter().position(|column| *column == self.sort).unwrap_or(0);
        let step = if is_right { 1 } else { columns.len() - 1 };
        self.sort = columns[(at + step) % columns.len()];
        self.is_reversed = false;
        self.order();
    }

    fn scroll(&mut self, to: usize) {
        self.first = to.min(self.shown().len().saturating_sub(self.room.max(1)));
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Reaction {
        if key.kind == KeyEventKind::Release {
            return Reaction::Nothing;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Reaction::Quit;
        }
        if self.is_typing {
            match key.code {
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.is_typing = false;
                    self.words.clear();
                }
                KeyCode::Backspace => {
                    self.words.pop();
                }
                KeyCode::Char(letter) => self.words.push(letter),
                _ => {}
            }
            self.first = 0;
            return Reaction::Nothing;
        }
        let page = self.room.max(1);
        match key.code {
            KeyCode::Char('q') => return Reaction::Quit,
            // Esc goes back one step: out of the filter, then out of the table.
            KeyCode::Esc if self.words.is_empty() => return Reaction::Quit,
            KeyCode::Esc => self.words.clear(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') | KeyCode::Right => self.sort_by_neighbour(true),
            KeyCode::Char('S') | KeyCode::Left => self.sort_by_neighbour(false),
            KeyCode::Char('r') => {
                self.is_reversed = !self.is_reversed;
                self.order();
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('a') => {
                self.all = !self.all;
                self.first = 0;
                return Reaction::Read;
            }
            KeyCode::Up | KeyCode::Char('k') => self.scroll(self.first.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(self.first + 1),
            KeyCode::PageUp => self.scroll(self.first.saturating_sub(page)),
            KeyCode::PageDown => self.scroll(self.first + page),
            KeyCode::Home => self.scroll(0),
            KeyCode::End => self.scroll(usize::MAX),
            _ => {}
        }
        Reaction::Nothing
    }
}
