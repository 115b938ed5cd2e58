//! Text tables in columns, with which every command prints.

use phaselink_core::number::{real_length, whole, wide_index};
use std::fmt;

const GAP: &str = "  ";

/// Alignment of the cells of a table column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alignment {
    Left,
    Right,
}

/// One line of a table below its headers: cells, or a rule.
#[derive(Clone, Debug)]
enum TableLine {
    Cells(Vec<String>),
    Rule,
}

/// Table under construction: columns first, then rows; `to_string` prints it.
///
/// Widths are counted in characters. Lines carry no trailing blanks.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Alignment)>,
    lines: Vec<TableLine>,
    /// Number of leading columns that identify a row; `None` stands for the first column alone.
    labels: Option<usize>,
}

impl Table {
    /// Makes a table without columns and rows.
    pub fn new() -> Table {
        Table::default()
    }

    /// Adds a left-aligned column, for words.
    pub fn left(mut self, header: impl Into<String>) -> Table {
        self.columns.push((header.into(), Alignment::Left));
        self
    }

    /// Adds a right-aligned column, for numbers.
    pub fn right(mut self, header: impl Into<String>) -> Table {
        self.columns.push((header.into(), Alignment::Right));
        self
    }

    /// Makes all columns so far labels, which identify a row; a table that is folded repeats them.
    pub fn labels(mut self) -> Table {
        self.labels = Some(self.columns.len());
        self
    }

    /// Returns the table as text for a terminal of this many `columns`. If the table is wider, the columns that do not
    /// fit follow below, beside the label columns again.
    pub fn within(&self, columns: usize) -> String {
        let widths = self.widths();
        let labels = self.labels.unwrap_or(1).min(self.columns.len());
        let taken = |columns: &[usize]| columns.iter().map(|column| widths[*column] + GAP.len()).sum::<usize>();
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for (column, width) in widths.iter().enumerate().skip(labels) {
            match parts.last_mut() {
                Some(part) if taken(part) + width <= columns => part.push(column),
                _ => parts.push((0..labels).chain([column]).collect()),
            }
        }
        match parts.len() {
            0 | 1 => self.to_string(),
            _ => parts.iter().map(|part| self.only(part).to_string()).collect::<Vec<_>>().join("\n"),
        }
    }

    /// Returns a table of only these columns, given by their indices.
    fn only(&self, columns: &[usize]) -> Table {
        let of_row = |cells: &Vec<String>| {
            columns.iter().map(|column| cells.get(*column).cloned().unwrap_or_default()).collect::<Vec<_>>()
        };
        let line = |line: &TableLine| match line {
            TableLine::Cells(cells) => TableLine::Cells(of_row(cells)),
            TableLine::Rule => TableLine::Rule,
        };
        Table {
            columns: columns.iter().map(|column| self.columns[*column].clone()).collect(),
            lines: self.lines.iter().map(line).collect(),
            labels: None,
        }
    }

    /// Adds a row; cells left out at its end are blank.
    ///
    /// # Panics
    /// If there are more cells than columns.
    pub fn row<I>(&mut self, cells: I)
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert!(cells.len() <= self.columns.len(), "a row of {} cells in {} columns", cells.len(), self.columns.len());
        self.lines.push(TableLine::Cells(cells));
    }

    /// Begins a new group of rows with a rule, unless there is no row above it.
    pub fn group(&mut self) {
        if matches!(self.lines.last(), Some(TableLine::Cells(_))) {
            self.lines.push(TableLine::Rule);
        }
    }

    /// Returns the table in Markdown as GitHub reads it: one line for each row, columns of numbers aligned right, no
    /// rules between groups.
    pub fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        let head = line(&mut self.columns().map(|(header, _)| escape_markdown_cell(header)));
        let sides = line(
            &mut self.columns().map(|(_, side)| String::from(if side == Alignment::Right { "---:" } else { "---" })),
        );
        let blank = || std::iter::repeat_n(String::new(), self.columns.len());
        let rows = self.rows().map(|row| {
            let cells = row.iter().map(|cell| escape_markdown_cell(cell));
            line(&mut cells.chain(blank()).take(self.columns.len()))
        });
        [head, sides].into_iter().chain(rows).collect()
    }

    /// True if the table has no row.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the header and the alignment of each column.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&str, Alignment)> {
        self.columns.iter().map(|(header, side)| (header.as_str(), *side))
    }

    /// Returns the rows of the table without the rules between them.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[String]> {
        self.lines.iter().filter_map(|line| match line {
            TableLine::Cells(cells) => Some(cells.as_slice()),
            TableLine::Rule => None,
        })
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(header, _)| characters(header)).collect();
        for cells in self.rows() {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(characters(cell));
            }
        }
        widths
    }

    fn align_cells<'a>(&self, cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
        let padded: Vec<String> = cells
            .zip(widths.iter().zip(&self.columns))
            .map(|(cell, (&width, (_, side)))| match side {
                Alignment::Left => format!("{cell:<width$}"),
                Alignment::Right => format!("{cell:>width$}"),
            })
            .collect();
        padded.join(GAP).trim_end().to_string()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let rule = "─".repeat(widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1));
        let headers = self.columns().map(|(header, _)| header);
        writeln!(f, "{}", self.align_cells(headers, &widths))?;
        writeln!(f, "{rule}")?;
        for line in &self.lines {
            match line {
                TableLine::Cells(cells) => {
                    writeln!(f, "{}", self.align_cells(cells.iter().map(String::as_str), &widths))?
                }
                TableLine::Rule => writeln!(f, "{rule}")?,
            }
        }
        Ok(())
    }
}

/// Escapes a text so that in Markdown it neither ends a table cell nor begins an element.
fn escape_markdown_cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

/// Returns the width of a text in characters.
pub fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Returns a text bar of up to `width` characters for a share from 0 to 1, precise to an eighth of a character; never
/// empty for a share above zero.
pub fn bar(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = wide_index(whole((share.clamp(0.0, 1.0) * real_length(width) * 8.0).round()));
    let eighths = if share > 0.0 { eighths.max(1) } else { eighths };
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn table_aligns_words_left_and_numbers_right() {
        let mut table = Table::new().left("paper").right("published").right("simulated").left("verdict");
        table.row(["DC Express", "1.40 us", "1.4 us", "reproduced"]);
        table.row(["Vučinić", "714 k"]);
        table.group();
        table.row(["Moneta", "9", "10.1", "off"]);
        expect![[r#"
            paper       published  simulated  verdict
            ────────────────────────────────────────────
            DC Express    1.40 us     1.4 us  reproduced
            Vučinić         714 k
            ────────────────────────────────────────────
            Moneta              9       10.1  off
        "#]]
        .assert_eq(&table.to_string());
    }

    #[test]
    fn wide_table_continues_below_with_repeated_row_labels() {
        let mut table =
            Table::new().left("block").right("threads").labels().right("mean us").right("kIOPS").left("busiest");
        table.row(["4 KiB", "8", "12.5", "640", "cores"]);
        table.group();
        table.row(["8 KiB", "8", "25.0", "320", "link"]);
        assert_eq!(table.within(40), table.to_string());
        expect![[r#"
            block  threads  mean us  kIOPS
            ──────────────────────────────
            4 KiB        8     12.5    640
            ──────────────────────────────
            8 KiB        8     25.0    320

            block  threads  busiest
            ───────────────────────
            4 KiB        8  cores
            ───────────────────────
            8 KiB        8  link
        "#]]
        .assert_eq(&table.within(32));
        assert_eq!(table.within(3).lines().count(), 3 * 5 + 2, "each column stands beside the labels");
    }

    #[test]
    fn markdown_table_escapes_bars_in_cells() {
        let mut table = Table::new().left("job").right("IOPS").right("p99");
        table.row(["a|b", "1.40 M"]);
        table.group();
        table.row(["<i>", "2", "3"]);
        assert_eq!(
            table.markdown(),
            "| job | IOPS | p99 |\n| --- | ---: | ---: |\n| a\\|b | 1.40 M |  |\n| &lt;i> | 2 | 3 |\n"
        );
    }

    #[test]
    fn empty_table_group_draws_no_second_rule() {
        let mut table = Table::new().left("a");
        table.group();
        table.group();
        assert!(table.is_empty());
        assert_eq!(table.to_string(), "a\n─\n");
    }

    #[test]
    #[should_panic(expected = "a row of 2 cells in 1 columns")]
    fn row_with_too_many_cells_panics() {
        Table::new().left("a").row(["1", "2"]);
    }

    #[test]
    fn table_bars_grow_in_eighths_and_show_tiny_shares() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(1e-9, 10), "▏");
        assert_eq!(bar(0.55, 10), "█████▌");
        assert_eq!(bar(2.0, 3), "███");
        assert_eq!(bar(f64::NAN, 3), "");
    }
}
