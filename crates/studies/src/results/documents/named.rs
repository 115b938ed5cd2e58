//! Parts of JSON documents whose keys or values come from a list elsewhere: figures, percentiles, stages.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::results::{FIGURES, Figure, Figures, PERCENTILES, Percentile, RunFigureGroup, Unit, in_tables};
use phaselink_core::ledger::{Latency, Stage};

/// JSON object with arbitrary keys, in the order of this list.
#[derive(Clone, Debug)]
pub struct ByName<T>(pub Vec<(String, T)>);

impl<T: Serialize> Serialize for ByName<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<T: JsonSchema> JsonSchema for ByName<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}ByName", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": values })
    }
}

/// Defines types for JSON objects of numbers whose keys come from a list.
macro_rules! keyed {
    ($(#[doc = $about:literal] $Name:ident: $required:literal, $keys:expr;)+) => {$(
        #[doc = $about]
        #[derive(Clone, Debug, Serialize)]
        #[serde(transparent)]
        pub struct $Name(pub Map<String, Value>);

        impl JsonSchema for $Name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($Name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                number_object_schema($about.trim(), $keys, $required)
            }
        }
    )+};
}

keyed! {
    /// Percentiles of latency, in ns; null where too few independent requests are slower.
    AllPercentiles: true, PERCENTILES.iter().map(|it| (String::from(it.name), BEYOND, "number", true));
    /// Percentiles of latency that tables show, in ns; null where too few independent requests are slower.
    TablePercentiles: true, in_tables().map(|it| (format!("{}_ns", it.name), BEYOND, "number", true));
    /// Figures of one point of a sweep by name: the columns that the plan selects.
    RowFigures: false, keys(|_| true);
}

/// Defines types for JSON objects of figures, each with the figures that it selects by their rows.
macro_rules! figures {
    ($(#[doc = $about:literal] $Name:ident: $has:expr;)+) => {
        keyed! { $(#[doc = $about] $Name: true, keys($has);)+ }
        $(impl $Name {
            /// Returns the figures of a run that this object has.
            pub fn of(figures: &Figures) -> $Name {
                let has: fn(&Figure) -> bool = $has;
                let shown = FIGURES.iter().filter(|figure| has(figure));
                $Name(shown.map(|it| (String::from(it.name), it.json(figures.get(it)))).collect())
            }
        })+
    };
}

figures! {
    /// Figures of all requests of a run together, such as throughput and mean latency, by name.
    RunFigures: |_| true;
    /// Figures of one drive in `phaselink compare`, such as throughput and mean latency, by name.
    CellFigures: |figure| figure.is_in_cells;
    /// Costs of the host that follow from its processor time during a run, by name.
    ProcessorFigures: |figure| figure.is_in_run(&[RunFigureGroup::Cores, RunFigureGroup::Processor]);
    /// Power of the server during a run, by name.
    PowerFigures: |figure| figure.is_in_run(&[RunFigureGroup::Power]);
    /// Energy for each request of a run, by name.
    EnergyFigures: |figure| figure.is_in_run(&[RunFigureGroup::Energy]);
}

const BEYOND: &str = "Latency in ns that the percentage of requests in the key (`p99`: 99 %) does not exceed.";

type Key = (String, &'static str, &'static str, bool);

fn keys(has: fn(&Figure) -> bool) -> impl Iterator<Item = Key> {
    let kind = |unit| if unit == Unit::Requests { "integer" } else { "number" };
    let figures = FIGURES.iter().filter(move |figure| has(figure));
    figures.map(move |it| (String::from(it.name), it.about, kind(it.unit), it.may_be_unknown))
}

/// Returns the JSON Schema of an object with these keys, whose values are numbers.
fn number_object_schema(about: &str, keys: impl Iterator<Item = Key>, is_required: bool) -> Schema {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, about, kind, may_be_null) in keys {
        let kind = if may_be_null { json!([kind, "null"]) } else { json!(kind) };
        properties.insert(name.clone(), json!({ "type": kind, "description": about }));
        required.push(name);
    }
    let mut schema = json_schema!({ "type": "object", "description": about, "properties": properties });
    if is_required {
        schema.insert(String::from("required"), json!(required));
    }
    schema
}

impl AllPercentiles {
    /// Returns all percentiles of these latencies.
    pub fn of(latency: &Latency) -> AllPercentiles {
        let value = |it: &Percentile| (String::from(it.name), Value::from(it.of_ns(latency)));
        AllPercentiles(PERCENTILES.iter().map(value).collect())
    }
}

impl TablePercentiles {
    /// Returns those percentiles of these latencies that tables show.
    pub fn of(latency: &Latency) -> TablePercentiles {
        TablePercentiles(in_tables().map(|it| (format!("{}_ns", it.name), Value::from(it.of_ns(latency)))).collect())
    }
}

/// Defines types for parts of JSON documents whose content is specified elsewhere.
macro_rules! described {
    ($(#[doc = $about:literal] $Name:ident($Inner:ty) = $schema:expr;)+) => {$(
        #[doc = $about]
        #[derive(Clone, Debug, Serialize)]
        #[serde(transparent)]
        pub struct $Name(pub $Inner);

        impl JsonSchema for $Name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($Name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema: Schema = $schema;
                schema.insert(String::from("description"), json!($about.trim()));
                schema
            }
        }
    )+};
}

described! {
    /// Description of a drive with every key resolved; `phaselink check --schema` prints the schema of the keys.
    Description(Value) = json_schema!({ "type": "object" });
    /// Job of a run with the keys of fio's JSON output; the values of `job options` are texts.
    FioJob(Value) = json_schema!({
        "type": "object", "required": ["jobname", "job options", "read", "write", "trim", "sync"],
    });
    /// Name of a latency stage: a fixed one of the simulator, or a stage of the software stack in the drive file.
    StageName(String) = {
        let names: Vec<&str> = Stage::fixed().map(|(name, _)| name).collect();
        json_schema!({ "anyOf": [{ "enum": names }, { "type": "string" }] })
    };
}
