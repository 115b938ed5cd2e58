//! Evaluation of expressions: numbers, truth values, and series over the swept values of an experiment.
//!
//! Arithmetic works point by point, and a number stands for a constant series. A comparison of series holds if it holds
//! at every point. The kinds of values depend only on the sweeps of experiments, never on a result, so that a plan can
//! be checked before anything runs.

use super::expression::{Expression, Function, Operator};
use super::plan_experiment::PlanExperiment;
use super::quantity::RunQuantity;
use phaselink_core::number::real_length;

/// Share of the largest value of a series at which the series counts as saturated.
const SATURATED: f64 = 0.9;

/// Value of an expression: a number, a truth value, or a series over the swept values of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExpressionValue {
    Number(f64),
    Truth(bool),
    /// One value (`values`) for each swept value (`points`).
    Series {
        points: Vec<f64>,
        values: Vec<f64>,
    },
}

impl ExpressionValue {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            ExpressionValue::Number(_) => "a number",
            ExpressionValue::Truth(_) => "a truth",
            ExpressionValue::Series { .. } => "a series",
        }
    }

    /// Returns the number, or 1 or 0 for a truth value; none for a series.
    pub(super) fn as_scalar(&self) -> Option<f64> {
        match self {
            ExpressionValue::Number(number) => Some(*number),
            ExpressionValue::Truth(truth) => Some(f64::from(u8::from(*truth))),
            ExpressionValue::Series { .. } => None,
        }
    }
}

/// Returns the value of an expression over the experiments of a plan; `read` returns a quantity of one run, by the
/// run's index.
///
/// # Errors
/// Operands of the wrong kind, series over different points, or a point that is not swept.
pub(super) fn evaluate(
    expression: &Expression,
    experiments: &[PlanExperiment],
    read: &impl Fn(usize, &RunQuantity) -> f64,
) -> Result<ExpressionValue, String> {
    let value_of = |inner: &Expression| evaluate(inner, experiments, read);
    match expression {
        Expression::Number(number) => Ok(ExpressionValue::Number(*number)),
        Expression::Truth(truth) => Ok(ExpressionValue::Truth(*truth)),
        Expression::Measured(experiment, quantity) => Ok(measured(&experiments[*experiment], quantity, read)),
        Expression::Returned(form, values) => Ok(series_or_number(&experiments[*form], values.clone())),
        Expression::Swept(experiment) => swept_value_series(&experiments[*experiment]),
        Expression::At(series, point) => at(value_of(series)?, *point),
        Expression::Negate(inner) => map(value_of(inner)?, "-", |number| -number),
        Expression::Not(inner) => truth(value_of(inner)?, "not").map(|truth| ExpressionValue::Truth(!truth)),
        Expression::Binary(operator, left, right) => {
            apply_binary_operator(*operator, value_of(left)?, value_of(right)?)
        }
        Expression::Call(function, arguments) => {
            let values: Result<Vec<ExpressionValue>, String> = arguments.iter().map(value_of).collect();
            call_function(*function, values?)
        }
    }
}

fn measured(
    experiment: &PlanExperiment,
    quantity: &RunQuantity,
    read: &impl Fn(usize, &RunQuantity) -> f64,
) -> ExpressionValue {
    series_or_number(experiment, experiment.runs.iter().map(|run| read(*run, quantity)).collect())
}

/// Returns the values of an experiment as a series over its swept values, or as a number if it sweeps nothing.
fn series_or_number(experiment: &PlanExperiment, values: Vec<f64>) -> ExpressionValue {
    match &experiment.swept {
        Some(points) => ExpressionValue::Series { points: points.clone(), values },
        None => ExpressionValue::Number(values[0]),
    }
}

fn swept_value_series(experiment: &PlanExperiment) -> Result<ExpressionValue, String> {
    let points = experiment.swept.clone();
    let points = points.ok_or_else(|| format!("x({}), but this experiment sweeps nothing", experiment.name))?;
    Ok(ExpressionValue::Series { values: points.clone(), points })
}

fn at(series: ExpressionValue, point: f64) -> Result<ExpressionValue, String> {
    let ExpressionValue::Series { points, values } = series else {
        return Err(format!("at(…, {point}) of {}", series.kind()));
    };
    let place = points.iter().position(|swept| *swept == point);
    place.map(|place| ExpressionValue::Number(values[place])).ok_or_else(|| format!("{point} is not swept: {points:?}"))
}

fn truth(value: ExpressionValue, operator: &str) -> Result<bool, String> {
    match value {
        ExpressionValue::Truth(truth) => Ok(truth),
        other => Err(format!("`{operator}` of {}", other.kind())),
    }
}

fn map(value: ExpressionValue, name: &str, change: impl Fn(f64) -> f64) -> Result<ExpressionValue, String> {
    match value {
        ExpressionValue::Number(number) => Ok(ExpressionValue::Number(change(number))),
        ExpressionValue::Series { points, values } => {
            Ok(ExpressionValue::Series { points, values: values.into_iter().map(change).collect() })
        }
        ExpressionValue::Truth(_) => Err(format!("`{name}` of a truth")),
    }
}

fn apply_binary_operator(
    operator: Operator,
    left: ExpressionValue,
    right: ExpressionValue,
) -> Result<ExpressionValue, String> {
    let symbol = operator.symbol();
    match operator {
        Operator::Or => Ok(ExpressionValue::Truth(truth(left, symbol)? | truth(right, symbol)?)),
        Operator::And => Ok(ExpressionValue::Truth(truth(left, symbol)? & truth(right, symbol)?)),
        Operator::Add => zip(left, right, symbol, |a, b| a + b),
        Operator::Subtract => zip(left, right, symbol, |a, b| a - b),
        Operator::Multiply => zip(left, right, symbol, |a, b| a * b),
        Operator::Divide => zip(left, right, symbol, |a, b| a / b),
        Operator::Power => zip(left, right, symbol, libm::pow),
        Operator::Less => compare_pointwise(left, right, symbol, |a, b| a < b),
        Operator::LessOrEqual => compare_pointwise(left, right, symbol, |a, b| a <= b),
        Operator::Greater => compare_pointwise(left, right, symbol, |a, b| a > b),
        Operator::GreaterOrEqual => compare_pointwise(left, right, symbol, |a, b| a >= b),
        Operator::Equal => compare_pointwise(left, right, symbol, |a, b| a == b),
        Operator::NotEqual => compare_pointwise(left, right, symbol, |a, b| a != b),
    }
}

/// Combines two operands point by point; a number counts as a constant series.
fn zip(
    left: ExpressionValue,
    right: ExpressionValue,
    symbol: &str,
    combine: impl Fn(f64, f64) -> f64,
) -> Result<ExpressionValue, String> {
    match (left, right) {
        (ExpressionValue::Number(left), right) => map(right, symbol, |number| combine(left, number)),
        (left, ExpressionValue::Number(right)) => map(left, symbol, |number| combine(number, right)),
        (
            ExpressionValue::Series { points, values: left },
            ExpressionValue::Series { points: others, values: right },
        ) => {
            if points != others {
                return Err(format!("`{symbol}` of series over different points: {points:?} and {others:?}"));
            }
            let values = left.into_iter().zip(right).map(|(left, right)| combine(left, right)).collect();
            Ok(ExpressionValue::Series { points, values })
        }
        (left, right) => Err(format!("`{symbol}` of {} and {}", left.kind(), right.kind())),
    }
}

fn compare_pointwise(
    left: ExpressionValue,
    right: ExpressionValue,
    symbol: &str,
    holds: impl Fn(f64, f64) -> bool,
) -> Result<ExpressionValue, String> {
    let verdicts = zip(left, right, symbol, |left, right| f64::from(u8::from(holds(left, right))))?;
    match verdicts {
        ExpressionValue::Series { values, .. } => {
            Ok(ExpressionValue::Truth(values.iter().all(|verdict| *verdict == 1.0)))
        }
        single => Ok(ExpressionValue::Truth(single.as_scalar() == Some(1.0))),
    }
}

fn call_function(function: Function, arguments: Vec<ExpressionValue>) -> Result<ExpressionValue, String> {
    match function {
        Function::Max => extreme_value(function, arguments, f64::max),
        Function::Min => extreme_value(function, arguments, f64::min),
        _ => apply_unary_function(function, arguments.into_iter().next().unwrap_or(ExpressionValue::Number(f64::NAN))),
    }
}

fn apply_unary_function(function: Function, argument: ExpressionValue) -> Result<ExpressionValue, String> {
    if function == Function::Abs {
        return map(argument, function.name(), f64::abs);
    }
    match argument {
        ExpressionValue::Series { points, values } => Ok(function_of_series(function, &points, &values)),
        other => Err(format!("`{}` of {}", function.name(), other.kind())),
    }
}

/// Returns the value of `function`, such as the slope, for the results of a sweep: `values` at the swept `points`.
/// Never called without values, because the plan refuses a sweep without them.
fn function_of_series(function: Function, points: &[f64], values: &[f64]) -> ExpressionValue {
    ExpressionValue::Number(match function {
        Function::Sum => values.iter().sum(),
        Function::First => values[0],
        Function::Last => values[values.len() - 1],
        Function::Spread => range_of_values(values) / mean(values).abs(),
        Function::Slope => slope(points, values),
        Function::Bend => nonlinearity(points, values),
        Function::Argmin => points[index_of_least(values, f64::total_cmp)],
        Function::Argmax => points[index_of_least(values, |a, b| b.total_cmp(a))],
        Function::Saturation => saturation(points, values),
        Function::Increasing => {
            return ExpressionValue::Truth(values.windows(2).all(|pair| pair[0] < pair[1]));
        }
        Function::Decreasing => {
            return ExpressionValue::Truth(values.windows(2).all(|pair| pair[0] > pair[1]));
        }
        Function::Mean | Function::Abs | Function::Max | Function::Min => mean(values),
    })
}

fn extreme_value(
    function: Function,
    arguments: Vec<ExpressionValue>,
    choose: fn(f64, f64) -> f64,
) -> Result<ExpressionValue, String> {
    let mut numbers = Vec::new();
    for argument in arguments {
        match argument {
            ExpressionValue::Number(number) => numbers.push(number),
            ExpressionValue::Series { values, .. } => numbers.extend(values),
            ExpressionValue::Truth(_) => return Err(format!("`{}` of a truth", function.name())),
        }
    }
    Ok(ExpressionValue::Number(numbers.into_iter().reduce(choose).unwrap_or(f64::NAN)))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / real_length(values.len())
}

fn range_of_values(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    largest - smallest
}

fn index_of_least(values: &[f64], order: impl Fn(&f64, &f64) -> std::cmp::Ordering) -> usize {
    (0..values.len()).min_by(|a, b| order(&values[*a], &values[*b])).unwrap_or(0)
}

/// Returns the first swept value at which the series reaches nine tenths of its largest value.
fn saturation(points: &[f64], values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let reached = values.iter().position(|value| *value >= SATURATED * largest);
    reached.map_or(f64::NAN, |place| points[place])
}

/// Returns the slope of the least-squares line through the series, over the swept values.
fn slope(points: &[f64], values: &[f64]) -> f64 {
    let (point_mean, value_mean) = (mean(points), mean(values));
    let pairs = points.iter().zip(values);
    let covariance: f64 = pairs.map(|(point, value)| (point - point_mean) * (value - value_mean)).sum();
    let variance: f64 = points.iter().map(|point| (point - point_mean) * (point - point_mean)).sum();
    covariance / variance
}

/// Returns the non-linearity of a series: its largest distance from the least-squares line, divided by the rise of that
/// line over the swept values.
fn nonlinearity(points: &[f64], values: &[f64]) -> f64 {
    let (point_mean, value_mean, slope) = (mean(points), mean(values), slope(points, values));
    let line = |point: f64| value_mean + slope * (point - point_mean);
    let distances = points.iter().zip(values).map(|(point, value)| (value - line(*point)).abs());
    distances.fold(0.0, f64::max) / (slope * range_of_values(points)).abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::expression::parse;
    use proptest::prelude::*;

    /// Returns experiments for tests: `flat-1` has one run, `line` and `curve` sweep 1, 2, 4, and `other` sweeps 1, 2.
    fn experiments() -> Vec<PlanExperiment> {
        let sweep = |name: &str, runs: Vec<usize>, points: Option<Vec<f64>>| PlanExperiment {
            name: String::from(name),
            runs,
            forms: Vec::new(),
            swept: points,
        };
        vec![
            sweep("flat-1", vec![0], None),
            sweep("line", vec![1, 2, 3], Some(vec![1.0, 2.0, 4.0])),
            sweep("curve", vec![4, 5, 6], Some(vec![1.0, 2.0, 4.0])),
            sweep("other", vec![7, 8], Some(vec![1.0, 2.0])),
        ]
    }

    /// Value of `iops` for each run of the experiments for tests: line = 10 + 5 x, curve = 9, 3, 6.
    const IOPS: [f64; 9] = [7.0, 15.0, 20.0, 30.0, 9.0, 3.0, 6.0, 1.0, 1.0];

    fn evaluate_text(text: &str) -> Result<ExpressionValue, String> {
        let experiments = experiments();
        let parsed = parse(text, &experiments).map_err(|faults| faults[0].found.clone())?;
        evaluate(&parsed, &experiments, &|run, _| IOPS[run])
    }

    fn number(text: &str) -> f64 {
        evaluate_text(text).unwrap().as_scalar().unwrap()
    }

    #[test]
    fn operator_precedence_follows_mathematics() {
        for (text, value) in [
            ("1 + 2 * 3", 7.0),
            ("8 - 2 - 1", 5.0),
            ("8 / 2 / 2", 2.0),
            ("2 ^ 3 ^ 2", 512.0),
            ("-2 ^ 2", -4.0),
            ("2 ^ -1", 0.5),
            ("2 * -3", -6.0),
            ("(1 + 2) * 3", 9.0),
            ("1e3 * 1.5", 1500.0),
            ("1 < 2 and 3 > 2 or 1 == 2", 1.0),
            ("true or false and false", 1.0),
            ("not 1 > 2", 1.0),
            ("not true or true", 1.0),
            ("1 + 1 <= 2", 1.0),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }

    #[test]
    fn swept_quantities_evaluate_to_series() {
        assert_eq!(number("flat-1.iops - 3"), 4.0);
        assert_eq!(number("at(line.iops, 4)"), 30.0);
        assert_eq!(number("at(line.iops - x(line), 2)"), 18.0);
        assert_eq!(number("at(line.iops / curve.iops, 4)"), 5.0);
    }

    #[test]
    fn series_functions_return_textbook_values() {
        for (text, value) in [
            ("max(curve.iops)", 9.0),
            ("min(curve.iops, 2)", 2.0),
            ("max(1, 3, 2)", 3.0),
            ("sum(curve.iops)", 18.0),
            ("mean(curve.iops)", 6.0),
            ("first(curve.iops)", 9.0),
            ("last(curve.iops)", 6.0),
            ("spread(curve.iops)", 1.0),
            ("slope(line.iops)", 5.0),
            ("argmin(curve.iops)", 2.0),
            ("argmax(curve.iops)", 1.0),
            ("saturation(line.iops)", 4.0),
            ("saturation(1 - 1 / x(line) ^ 4)", 2.0),
            ("saturation(curve.iops)", 1.0),
            ("increasing(line.iops)", 1.0),
            ("increasing(curve.iops)", 0.0),
            ("decreasing(-line.iops)", 1.0),
            ("abs(3 - 5)", 2.0),
            ("max(abs(curve.iops - 6))", 3.0),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
        assert!(number("bend(line.iops)") < 1e-12);
        assert!(number("bend(curve.iops)") > 0.5);
    }

    #[test]
    fn series_comparison_holds_only_if_it_holds_at_each_point() {
        assert_eq!(number("line.iops > 14"), 1.0);
        assert_eq!(number("line.iops > 15"), 0.0);
        assert_eq!(number("line.iops > curve.iops"), 1.0);
    }

    #[test]
    fn meaningless_expression_is_refused_with_the_reason() {
        for (text, reason) in [
            ("1 + true", "`+` of a truth"),
            ("true < 1", "`<` of a truth"),
            ("1 < 2 < 3", "`<` of a truth"),
            ("not 1", "`not` of a number"),
            ("1 and true", "`and` of a number"),
            ("line.iops + other.iops", "`+` of series over different points: [1.0, 2.0, 4.0] and [1.0, 2.0]"),
            ("at(line.iops, 3)", "3 is not swept: [1.0, 2.0, 4.0]"),
            ("at(flat-1.iops, 3)", "at(…, 3) of a number"),
            ("x(flat-1)", "x(flat-1), but this experiment sweeps nothing"),
            ("slope(3)", "`slope` of a number"),
            ("max(true)", "`max` of a truth"),
        ] {
            assert_eq!(evaluate_text(text), Err(String::from(reason)), "{text}");
        }
    }

    #[test]
    fn syntax_errors_and_unknown_names_are_refused() {
        for (text, reason) in [
            ("", "the expression ends early"),
            ("1 +", "the expression ends early"),
            ("(1", "the expression ends early"),
            ("1 2", "unexpected `2`"),
            (")", "unexpected `)`"),
            ("at(line.iops, x)", "unexpected `x`"),
            ("slope(line.iops, 1)", "2 arguments of `slope`"),
            ("flat.iops", "unknown experiment `flat`, did you mean flat-1?"),
            ("line.iopz", "unknown quantity `iopz`, did you mean iops?"),
            ("slop(line.iops)", "unknown function `slop`, did you mean slope?"),
            ("line", "unknown quantity ``"),
        ] {
            assert_eq!(evaluate_text(text), Err(String::from(reason)), "{text}");
        }
    }

    #[test]
    fn all_unknown_names_of_an_expression_are_reported_together() {
        let faults = parse("lin.iops + curve.iop * slop(line.iops)", &experiments()).unwrap_err();
        let found: Vec<&str> = faults.iter().map(|mistake| mistake.found.as_str()).collect();
        assert_eq!(
            found,
            [
                "unknown experiment `lin`, did you mean line?",
                "unknown quantity `iop`, did you mean iops?",
                "unknown function `slop`, did you mean slope?"
            ]
        );
        assert!(faults[0].allowed.starts_with("line, "));
    }

    #[test]
    fn deepest_allowed_expression_does_not_overflow_the_stack() {
        assert!(evaluate_text(&"(".repeat(255)).is_err());
        assert!(evaluate_text(&format!("{}1{}", "(".repeat(127), ")".repeat(127))).is_ok());
        assert!(evaluate_text(&format!("1{}", " + 1".repeat(127))).is_ok());
        assert!(evaluate_text(&format!("{}1", "-".repeat(255))).is_ok());
        assert!(evaluate_text(&"(".repeat(100_000)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn expression_parser_never_panics_on_random_text(text in "\\PC{0,40}") {
            let _ = evaluate_text(&text);
        }

        #[test]
        fn expression_evaluator_never_panics_on_random_tokens(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "1", "0", "2.5e3", "line.iops", "curve.iops", "flat-1.iops", "other.iops", "x(line)", "+", "-",
                    "*", "/", "^", "<", ">=", "==", "and", "or", "not", "(", ")", ",", "max(", "slope(", "bend(", "at(",
                    "argmin(", "increasing(", "spread(", "true",
                ]),
                0..24,
            ),
        ) {
            let _ = evaluate_text(&words.join(" "));
        }

        #[test]
        fn arithmetic_agrees_with_f64(a in -1e6..1e6, b in -1e6..1e6, c in 1.0..1e6) {
            prop_assert_eq!(number(&format!("({a}) + ({b}) * ({c}) / 3")), a + b * c / 3.0);
        }
    }
}
