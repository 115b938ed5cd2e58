//! Language in which a plan says how a published figure follows from its experiments.
//!
//! ```text
//! user-512.mean_ns - user-512.stage.transfer          1e9 / user-4k.iops
//! increasing(lanes.iops) and max(lanes.iops) < 1e6     at(sizes.mean_ns, 512)
//! ```
//!
//! From loose to tight: `or`, `and`, `not`, comparisons, `+ -`, `* /`, unary `-`, `^` (to the right).
//! A `-` between two letters or digits of a name belongs to the name, so subtraction takes spaces.
//! [`parse`] resolves every name, so an [`Expression`] names only what exists.

use super::lexer::{ExpressionToken, tokens};
use super::mistake::ExpressionMistake;
use super::plan_experiment::PlanExperiment;
use super::plan_form;
use super::quantity::RunQuantity;

/// Parsed expression of a plan, in which every name is resolved.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Number(f64),
    Truth(bool),
    /// Quantity of an experiment, which is given by its index in the plan; a series if the experiment sweeps a key.
    Measured(usize, RunQuantity),
    /// Value of a closed form, or one value for each swept value; the form is given by its index in the plan.
    Returned(usize, Vec<f64>),
    /// Swept values of an experiment, which is given by its index in the plan.
    Swept(usize),
    /// Value of a series at one of its swept values.
    At(Box<Expression>, f64),
    Negate(Box<Expression>),
    Not(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    Call(Function, Vec<Expression>),
}

/// Operator of an expression between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

/// Function of series or numbers in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// Absolute value, point by point.
    Abs,
    /// Largest of all arguments and their points; `Min` is the smallest.
    Max,
    Min,
    /// Sum of a series over its points; `Mean` is its mean.
    Sum,
    Mean,
    /// Value of a series at its first swept value; `Last` is that at its last one.
    First,
    Last,
    /// Spread of a series, (largest - smallest) / |mean|: 0 for a constant.
    Spread,
    /// Slope of the least-squares line of a series over its swept values.
    Slope,
    /// Largest distance of a series from its least-squares line, as a share of the line's rise: 0 for a straight line.
    Bend,
    /// Swept value at which a series is smallest; `Argmax` is the one at which it is largest.
    Argmin,
    Argmax,
    /// Swept value at which a series first reaches nine tenths of its largest value.
    Saturation,
    /// True if each value of a series is larger than the one before; `Decreasing` is true if each is smaller.
    Increasing,
    Decreasing,
}

const OPERATORS: [(&str, Operator); 13] = [
    ("or", Operator::Or),
    ("and", Operator::And),
    ("<", Operator::Less),
    ("<=", Operator::LessOrEqual),
    (">", Operator::Greater),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("+", Operator::Add),
    ("-", Operator::Subtract),
    ("*", Operator::Multiply),
    ("/", Operator::Divide),
    ("^", Operator::Power),
];

const FUNCTIONS: [(&str, Function); 15] = [
    ("abs", Function::Abs),
    ("max", Function::Max),
    ("min", Function::Min),
    ("sum", Function::Sum),
    ("mean", Function::Mean),
    ("first", Function::First),
    ("last", Function::Last),
    ("spread", Function::Spread),
    ("slope", Function::Slope),
    ("bend", Function::Bend),
    ("argmin", Function::Argmin),
    ("argmax", Function::Argmax),
    ("saturation", Function::Saturation),
    ("increasing", Function::Increasing),
    ("decreasing", Function::Decreasing),
];

/// Binding power of the prefix `not`; a higher one binds more tightly. [`Operator::power`] has that of operators
/// between two operands.
const NOT_POWER: u8 = 3;
/// Binding power of the prefix `-`; a higher one binds more tightly.
const NEGATE_POWER: u8 = 7;

impl Operator {
    fn binding_power(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Less | Operator::LessOrEqual | Operator::Greater => 4,
            Operator::GreaterOrEqual | Operator::Equal | Operator::NotEqual => 4,
            Operator::Add | Operator::Subtract => 5,
            Operator::Multiply | Operator::Divide => 6,
            Operator::Power => 8,
        }
    }

    /// Returns the smallest binding power of operators in the right operand: `^` groups to the right (and takes
    /// `2^-1`), all others to the left.
    fn right_binding_power(self) -> u8 {
        match self {
            Operator::Power => NEGATE_POWER,
            other => other.binding_power() + 1,
        }
    }

    pub(super) fn symbol(self) -> &'static str {
        table_name_of(&OPERATORS, self)
    }
}

impl Function {
    pub(super) fn name(self) -> &'static str {
        table_name_of(&FUNCTIONS, self)
    }

    /// True if the function takes several arguments, as `max` and `min` do.
    fn is_variadic(self) -> bool {
        matches!(self, Function::Max | Function::Min)
    }
}

fn table_name_of<T: PartialEq>(table: &[(&'static str, T)], wanted: T) -> &'static str {
    table.iter().find(|(_, item)| *item == wanted).map_or("", |(name, _)| name)
}

/// Parses the text of an expression, and resolves its names among the experiments of a plan.
///
/// # Errors
/// The first mistake of syntax, together with every unknown name before it.
pub(super) fn parse(text: &str, experiments: &[PlanExperiment]) -> Result<Expression, Vec<ExpressionMistake>> {
    let tokens = tokens(text).map_err(|mistake| vec![mistake])?;
    let mut parser = Parser { tokens: &tokens, at: 0, experiments, faults: Vec::new() };
    match parser.parse_whole_expression() {
        Ok(expression) if parser.faults.is_empty() => Ok(expression),
        Ok(_) => Err(parser.faults),
        Err(mistake) => {
            parser.faults.push(mistake);
            Err(parser.faults)
        }
    }
}

/// Operator-precedence parser of expressions. The lexer's limit on tokens bounds its recursion.
struct Parser<'a> {
    tokens: &'a [ExpressionToken<'a>],
    at: usize,
    experiments: &'a [PlanExperiment],
    /// Mistakes of unknown names, which do not stop the parser.
    faults: Vec<ExpressionMistake>,
}

impl<'a> Parser<'a> {
    fn parse_whole_expression(&mut self) -> Result<Expression, ExpressionMistake> {
        let expression = self.operand(0)?;
        match self.next() {
            None => Ok(expression),
            Some(token) => Err(unexpected_token_mistake(Some(token), "an operator or the end")),
        }
    }

    fn peek(&self) -> Option<ExpressionToken<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<ExpressionToken<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.is(symbol));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExpressionMistake> {
        match self.take(symbol) {
            true => Ok(()),
            false => Err(unexpected_token_mistake(self.peek(), &format!("`{symbol}`"))),
        }
    }

    /// Parses an operand in which all operators bind at least as tightly as `power_min`.
    fn operand(&mut self, power_min: u8) -> Result<Expression, ExpressionMistake> {
        let mut left = self.prefix()?;
        while let Some(operator) = self.operator().filter(|operator| operator.binding_power() >= power_min) {
            self.at += 1;
            let right = self.operand(operator.right_binding_power())?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operator(&self) -> Option<Operator> {
        let token = self.peek()?;
        OPERATORS.iter().find(|(symbol, _)| token.is(symbol)).map(|(_, operator)| *operator)
    }

    fn prefix(&mut self) -> Result<Expression, ExpressionMistake> {
        match self.next() {
            Some(ExpressionToken::Number(number)) => Ok(Expression::Number(number)),
            Some(ExpressionToken::Symbol("-")) => Ok(Expression::Negate(Box::new(self.operand(NEGATE_POWER)?))),
            Some(ExpressionToken::Symbol("(")) => self.parenthesis(),
            Some(ExpressionToken::Name("not")) => Ok(Expression::Not(Box::new(self.operand(NOT_POWER)?))),
            Some(ExpressionToken::Name("true")) => Ok(Expression::Truth(true)),
            Some(ExpressionToken::Name("false")) => Ok(Expression::Truth(false)),
            Some(ExpressionToken::Name(name)) if !matches!(name, "and" | "or") => self.named(name),
            token => Err(unexpected_token_mistake(token, "a number, a quantity, a function or `(`")),
        }
    }

    fn parenthesis(&mut self) -> Result<Expression, ExpressionMistake> {
        let inner = self.operand(0)?;
        self.expect(")")?;
        Ok(inner)
    }

    fn named(&mut self, name: &str) -> Result<Expression, ExpressionMistake> {
        match name {
            _ if !self.take("(") => Ok(self.measured(name)),
            "x" => self.parse_swept_values(),
            "at" => self.parse_at_call(),
            _ => self.call(name),
        }
    }

    /// Resolves the name `experiment.quantity`; an unknown name is recorded as a mistake.
    fn measured(&mut self, name: &str) -> Expression {
        let (experiment, path) = name.split_once('.').unwrap_or((name, ""));
        let place = self.experiment(experiment);
        let form = self.experiments.get(place).filter(|found| found.is_closed_form() && found.name == experiment);
        let parsed = match form {
            Some(form) => plan_form::read(path, &form.forms).map(|values| Expression::Returned(place, values)),
            None => RunQuantity::parse(path).map(|quantity| Expression::Measured(place, quantity)),
        };
        match parsed {
            Ok(expression) => expression,
            Err(mistake) => {
                self.faults.push(mistake);
                Expression::Number(f64::NAN)
            }
        }
    }

    /// Returns the index of the experiment of this name. An unknown name is recorded as a mistake; its index is 0,
    /// because the expression will be refused.
    fn experiment(&mut self, name: &str) -> usize {
        let place = self.experiments.iter().position(|experiment| experiment.name == name);
        if place.is_none() {
            let names = self.experiments.iter().map(|experiment| experiment.name.as_str());
            self.faults.push(ExpressionMistake::unknown("experiment", name, names));
        }
        place.unwrap_or(0)
    }

    /// Parses `x(experiment)`, the swept values of an experiment.
    fn parse_swept_values(&mut self) -> Result<Expression, ExpressionMistake> {
        let Some(ExpressionToken::Name(name)) = self.next() else {
            return Err(ExpressionMistake::new("x( ) without an experiment", "x(experiment)"));
        };
        let experiment = self.experiment(name);
        self.expect(")")?;
        Ok(Expression::Swept(experiment))
    }

    /// Parses `at(series, number)`. The second argument is a plain number, so that its existence as a point does not
    /// depend on a result.
    fn parse_at_call(&mut self) -> Result<Expression, ExpressionMistake> {
        let series = self.operand(0)?;
        self.expect(",")?;
        let point = match self.next() {
            Some(ExpressionToken::Number(point)) => point,
            token => return Err(unexpected_token_mistake(token, "a number, as in at(sizes.mean_ns, 512)")),
        };
        self.expect(")")?;
        Ok(Expression::At(Box::new(series), point))
    }

    fn call(&mut self, name: &str) -> Result<Expression, ExpressionMistake> {
        let mut arguments = vec![self.operand(0)?];
        while self.take(",") {
            arguments.push(self.operand(0)?);
        }
        self.expect(")")?;
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let names = FUNCTIONS.iter().map(|(known, _)| *known).chain(["at", "x"]);
            self.faults.push(ExpressionMistake::unknown("function", name, names));
            return Ok(Expression::Number(f64::NAN));
        };
        if arguments.len() > 1 && !function.is_variadic() {
            return Err(ExpressionMistake::new(format!("{} arguments of `{name}`", arguments.len()), "one argument"));
        }
        Ok(Expression::Call(*function, arguments))
    }
}

fn unexpected_token_mistake(token: Option<ExpressionToken<'_>>, allowed: &str) -> ExpressionMistake {
    let found = token.map_or(String::from("the expression ends early"), |token| format!("unexpected `{token}`"));
    ExpressionMistake::new(found, allowed)
}

impl Expression {
    /// Calls `visit` with the index of each experiment in the expression, and the quantity that is read of it. The
    /// quantity is `None` for the experiment's swept values, and for a closed form.
    pub(super) fn visit<'a>(&'a self, visit: &mut impl FnMut(usize, Option<&'a RunQuantity>)) {
        match self {
            Expression::Number(_) | Expression::Truth(_) => {}
            Expression::Measured(experiment, quantity) => visit(*experiment, Some(quantity)),
            Expression::Swept(experiment) | Expression::Returned(experiment, _) => visit(*experiment, None),
            Expression::At(inner, _) | Expression::Negate(inner) | Expression::Not(inner) => inner.visit(visit),
            Expression::Binary(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            Expression::Call(_, arguments) => arguments.iter().for_each(|argument| argument.visit(visit)),
        }
    }
}
