//! Escapes log events, so that each stays on one line: their text may come from a plugin, a cloud,
//! a user or the API server.

use std::fmt;

use skydock_cloud::text::escape;
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

/// A format of log events: `MESSAGE NAME=VALUE …`, with control characters in the message and in
/// all values escaped.
pub(super) struct OneLine;

impl<'writer> FormatFields<'writer> for OneLine {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = Line {
            writer,
            begun: false,
            result: Ok(()),
        };
        fields.record(&mut line);
        line.result
    }
}

struct Line<'writer> {
    writer: Writer<'writer>,
    begun: bool,
    result: fmt::Result,
}

impl Line<'_> {
    fn field(&mut self, name: &str, value: &dyn fmt::Debug) -> fmt::Result {
        if std::mem::replace(&mut self.begun, true) {
            self.writer.write_char(' ')?;
        }
        // The name of a field may be a raw identifier, for example `r#type`.
        if name != "message" {
            write!(self.writer, "{}=", name.strip_prefix("r#").unwrap_or(name))?;
        }
        self.writer.write_str(&escape(&format!("{value:?}")))
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // The additional fields of the `log` crate are already in other parts of the line.
        if self.result.is_ok() && !field.name().starts_with("log.") {
            self.result = self.field(field.name(), value);
        }
    }
}
