//! Fitted values in machine-readable form: as a JSON document, and as a drive file.

use std::fmt::Write;

use serde_json::Value as Json;

use super::text::{number, sentences};
use super::{FigureKind, Fit, FitRemark, FitTask, Fitted, MeasuredFigure};
use crate::results::documents::{self, AlikeKeys, FigureUnit, FitDocument, FittedFigure, FittedKey};
use phaselink_core::config::UncertainConstant;
use phaselink_core::config::section::Section;

/// Returns the JSON document of a fit, without the header that all documents share.
pub fn document(question: &FitTask, fit: &Fit) -> Json {
    let key = |it: &Fitted| FittedKey {
        key: it.key.name.clone(),
        start: it.key.start,
        value: it.value,
        low: (!it.is_open_below).then_some(it.low),
        high: (!it.is_open_above).then_some(it.high),
        determined: it.is_determined,
    };
    let figure = |(figure, fitted): &(MeasuredFigure, f64)| FittedFigure {
        job: figure.name.clone(),
        figure: figure.heading(),
        unit: if figure.kind == FigureKind::Iops { FigureUnit::PerS } else { FigureUnit::Ns },
        measured: figure.value,
        fitted: *fitted,
    };
    let alike = fit.findings.iter().filter_map(|finding| match finding {
        FitRemark::Together { keys, ratio } => Some(AlikeKeys { keys: keys.clone(), ratio: *ratio, known: false }),
        FitRemark::Weakly { keys, ratio } => Some(AlikeKeys { keys: keys.clone(), ratio: *ratio, known: true }),
        _ => None,
    });
    let unseen = fit.findings.iter().filter_map(|finding| match finding {
        FitRemark::Unseen(key) => Some(key.clone()),
        _ => None,
    });
    documents::value(&FitDocument {
        drive: question.described.drive().name.clone(),
        model_error_share: question.effort.model_error,
        seed: question.effort.seed,
        keys: fit.keys.iter().map(key).collect(),
        figures: fit.figures.iter().map(figure).collect(),
        unseen: unseen.collect(),
        not_told_apart: alike.collect(),
        misfit_share: fit.misfit,
        findings: sentences(fit),
        simulations: fit.simulations,
    })
}

/// Returns a drive file with the fitted values and their intervals. It is based on the drive `base`, changed by
/// `changes` as with `--set`.
pub fn drive_file(question: &FitTask, fit: &Fit, base: &str, changes: &[String]) -> String {
    let values: Vec<f64> = fit.keys.iter().map(|it| rounded(it.value)).collect();
    let mut text = format!("preset = {}\n", toml::Value::from(base));
    for setting in changes.iter().cloned().chain(question.settings(&values)) {
        let _ = writeln!(text, "{}", line(&setting));
    }
    for it in fit.keys.iter() {
        let doubt = UncertainConstant {
            key: it.key.name.clone(),
            why: format!("phaselink fit, 90 % interval{}", if it.is_determined { "" } else { ": not determined" }),
            low: rounded(it.low),
            high: rounded(it.high),
            ..UncertainConstant::default()
        };
        let _ = writeln!(text, "\n[[{}]]", doubt.path());
        for (name, value) in doubt.values().into_iter().filter(|(name, _)| *name != "instead") {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    text
}

/// Rounds a fitted value to the significant digits that are printed.
fn rounded(value: f64) -> f64 {
    number(value).parse().unwrap_or(value)
}

/// Returns a setting `key=value` as a line of TOML. A value that is not valid TOML becomes a string.
fn line(setting: &str) -> String {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let (key, value) = (key.trim(), value.trim());
    let is_value = format!("value = {value}").parse::<toml::Table>().is_ok();
    match is_value {
        true => format!("{key} = {value}"),
        false => format!("{key} = {}", toml::Value::from(value)),
    }
}
