//! Draws the live table on a screen of any size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table};

use super::app::App;
use super::rows::{Column, IMPOSSIBLE_MEANS, Row, impossible};

/// Gap between columns of the table, in characters.
const GAP: usize = 2;
const HELP: &str = "q quit  p pause  s/S sort by next/previous  r reverse  / filter  a all or knee's  arrows scroll";

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    // The head, the titles, one connection and the help need four lines.
    if area.height < 4 || area.width < 20 {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    let line = |y: u16| Rect { y: area.y + y, height: 1, ..area };
    app.room = usize::from(area.height) - 3;
    let shown = app.shown();
    let first = app.first.min(shown.len().saturating_sub(app.room));
    let visible = &shown[first..shown.len().min(first + app.room)];
    frame.render_widget(head(app, shown.len()), line(0));
    if visible.is_empty() {
        let what = match (app.total(), app.all) {
            (0, true) => "no connections",
            (0, false) => "no connections of knee's algorithms (a shows all)",
            _ => "no match (Esc shows all)",
        };
        frame.render_widget(Paragraph::new(what), line(2));
    } else {
        let body = Rect { y: area.y + 1, height: area.height - 2, ..area };
        frame.render_widget(table(app, visible, usize::from(area.width)), body);
    }
    let bottom = line(area.height - 1);
    if app.is_typing {
        frame.render_widget(Paragraph::new(format!("filter: {}_", app.words)), bottom);
    } else if visible.iter().any(|row| !impossible(&row.connection).is_empty()) {
        frame.render_widget(Paragraph::new(IMPOSSIBLE_MEANS), bottom);
    } else {
        frame.render_widget(Paragraph::new(HELP).style(dim()), bottom);
    }
    app.first = first;
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Title line: shown and total connections, filter and order.
fn head(app: &App, shown: usize) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut parts = vec![Span::styled("knee top", bold)];
    let whose = if app.all { "connections" } else { "connections of knee's" };
    parts.push(Span::raw(match app.words.is_empty() {
        true => format!("  {shown} {whose}"),
        false => format!("  {shown} of {} {whose} with \"{}\"", app.total(), app.words),
    }));
    let arrow = if app.is_reversed { ", reversed" } else { "" };
    parts.push(Span::raw(format!("  by {}{arrow}", app.sort.title())));
    if app.is_paused {
        parts.push(Span::styled("  PAUSED", bold));
    }
    Line::from(parts)
}

/// Returns a table of the columns that fit, each as wide as its visible cells.
fn table<'a>(app: &App, visible: &[&Row], room: usize) -> Table<'a> {
    let cells = |column: Column| visible.iter().map(move |row| column.cell(row));
    let wide = |column: Column| {
        cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0).max(column.title().len())
    };
    let columns: Vec<Column> = Column::ALL
        .into_iter()
        .filter(|column| app.with_netns || *column != Column::Netns)
        .collect();
    let chosen = fit(columns.iter().map(|column| (*column, wide(*column))).collect(), room);
    let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
    let titles = chosen.iter().map(|(column, width)| {
        let style = if *column == app.sort { underlined } else { Style::new() };
        Cell::new(Span::styled(aligned(*column, column.title(), *width), style))
    });
    let lines = visible.iter().map(|row| {
        TableRow::new(
            chosen.iter().map(|(column, width)| aligned(*column, &column.cell(row), *width)),
        )
    });
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(lines, chosen.iter().map(|(_, width)| Constraint::Length(*width as u16)))
        .header(TableRow::new(titles).style(bold))
        .column_spacing(GAP as u16)
}

fn aligned(column: Column, text: &str, width: usize) -> String {
    if column.is_right_aligned() { format!("{text:>width$}") } else { text.to_owned() }
}

/// Leaves out columns until the rest fits, the most expendable first. The last one, the inside, is cut off at the
/// edge of the screen.
pub(super) fn fit(mut columns: Vec<(Column, usize)>, room: usize) -> Vec<(Column, usize)> {
    let is_too_wide = |columns: &[(Column, usize)]| {
        let needed = |(column, width): &(Column, usize)| match column {
            // Part of the algorithm's internal values is better than none.
            Column::Inside => (*width).min(24),
            _ => *width,
        };
        columns.iter().map(needed).sum::<usize>() + GAP * columns.len().saturating_sub(1) > room
    };
    for spared in Column::EXPENDABLE {
        if !is_too_wide(&columns) {
            break;
        }
        columns.retain(|(column, _)| *column != spared);
    }
    // Every other column is shown whole, because a number without its end or unit would mislead.
    let mut used = 0;
    columns.retain_mut(|(column, width)| {
        let begins_at = if used == 0 { 0 } else { used + GAP };
        if *column == Column::Inside {
            *width = (*width).min(room.saturating_sub(begins_at));
        }
        let fits = used == 0 || (*width > 0 && begins_at + *width <= room);
        if fits {
            used = begins_at + *width;
        }
        fits
    });
    columns
}
