//! Log lines in JSON, with the keys that components of Kubernetes have with `--logging-format=json`
//! (`k8s.io/component-base/logs/json`): `ts` in milliseconds, `caller`, `msg`, and `v`, which an
//! error does not have; its cause is in `err`. In addition, `level`, `logger`, and `span` with the
//! call of a plugin in which something was logged.

use std::{
    fmt::{self, Write as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, format::Writer},
    registry::LookupSpan,
};

/// A format of log events, and of the fields of spans in them.
pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut members = Members::default();
        event.record(&mut members);

        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        write!(
            writer,
            r#"{{"ts":{}"#,
            milliseconds(now.unwrap_or_default())
        )?;
        if let Some(caller) = caller(metadata) {
            write!(writer, r#","caller":{}"#, Value::from(caller))?;
        }
        write!(writer, r#","msg":{}"#, Value::from(members.message))?;
        if let Some(v) = verbosity(*metadata.level()) {
            write!(writer, r#","v":{v}"#)?;
        }
        let logger = members.logger.as_deref().unwrap_or(metadata.target());
        let level = metadata.level().as_str();
        write!(
            writer,
            r#","level":"{level}","logger":{}"#,
            Value::from(logger)
        )?;
        writer.write_str(&members.others)?;

        if let Some(span) = context.lookup_current() {
            write!(writer, r#","span":{{"name":{}"#, Value::from(span.name()))?;
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                writer.write_str(&fields.fields)?;
            }
            writer.write_char('}')?;
        }
        writer.write_str("}\n")
    }
}

impl<'writer> FormatFields<'writer> for Json {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut members = Members::default();
        fields.record(&mut members);
        writer.write_str(&members.others)
    }
}

/// Returns a time since the Unix epoch as upstream writes it.
fn milliseconds(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    format!("{}.{:06}", nanoseconds / 1_000_000, nanoseconds % 1_000_000)
}

/// Returns the place in the code, with the last directory of the file.
fn caller(metadata: &Metadata<'_>) -> Option<String> {
    let (file, line) = (metadata.file()?, metadata.line()?);
    let start = file.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    Some(format!("{}:{line}", file.get(start..)?))
}

/// Returns the least verbosity with which events of this level are logged. Errors have none.
fn verbosity(level: Level) -> Option<u8> {
    match level {
        Level::ERROR => None,
        Level::WARN | Level::INFO => Some(0),
        Level::DEBUG => Some(4),
        Level::TRACE => Some(6),
    }
}

/// What the fields of an event or a span say.
#[derive(Default)]
struct Members {
    message: String,
    /// Set for events of the `log` crate.
    logger: Option<String>,
    /// Members of a JSON object, each after a comma.
    others: String,
}

impl Members {
    fn add(&mut self, field: &Field, value: &Value) {
        // The name of a field may be a raw identifier, for example `r#type`.
        let name = field.name();
        let key = match name.strip_prefix("r#").unwrap_or(name) {
            "error" => "err",
            key => key,
        };

        let text = || {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        match key {
            "message" => self.message = text(),
            "log.target" => self.logger = Some(text()),
            // Where it was logged, which other crates do not always know.
            key if key.starts_with("log.") => {}
            key => {
                // Writing to a text does not fail.
                let _ = write!(self.others, ",{}:{value}", Value::from(key));
            }
        }
    }
}

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, &value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, &value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, &value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, &value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_milliseconds() {
        for (time, written) in [
            (Duration::ZERO, "0.000000"),
            (Duration::new(1, 5), "1000.000005"),
            (
                Duration::new(1_764_000_000, 123_456_789),
                "1764000000123.456789",
            ),
        ] {
            assert_eq!(milliseconds(time), written);
        }
    }
}
