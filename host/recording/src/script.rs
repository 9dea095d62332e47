//! A recording that has been read: the calls of an instance with what happened in each, and all
//! HTTP exchanges.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    io::{self, BufRead as _, BufReader, Read as _},
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, value::RawValue};
use skydock_cloud::units::bytes;
use skydock_resources::files::open;

use super::{
    archive::SUFFIX,
    entry::{Ending, Header, Line, RequestHead, ResponseHead},
};

/// Status codes of HTTP.
const STATUS: RangeInclusive<u16> = 100..=999;

/// What each recording begins with.
const START: &[u8] = br#"{"recording":{"#;

/// Maximum bytes of a recording: an instance is replaced long before.
const LARGEST: u64 = 256 << 20;

/// Maximum bytes of an argument or an answer, which takes up to forty times as much memory when it
/// is parsed.
const LARGEST_VALUE: usize = 32 << 20;

/// Reasons why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file has something else.
    #[error("{}:{line}: not a line of a recording: {reason}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is too large.
    #[error("{} is larger than {}, the maximum of a recording", .0.display(), bytes(LARGEST))]
    TooLarge(PathBuf),
    /// It has no header.
    #[error("{} is not a recording of this version of Skydock", .0.display())]
    Header(PathBuf),
    /// It has no line, not even a header.
    #[error("{} is empty: the process ended before it wrote anything", .0.display())]
    Empty(PathBuf),
    /// The directory has none.
    #[error("{} has no recordings (*{SUFFIX})", .0.display())]
    None(PathBuf),
}

/// A recording.
pub struct Script {
    /// Where the recording comes from.
    pub header: Header,
    /// The first is the instantiation; each other is a call of the plugin.
    pub(crate) recorded_calls: Vec<RecordedCall>,
    pub(super) exchanges: BTreeMap<u64, Exchange>,
    /// Why the recording is incomplete.
    pub cut: Option<String>,
}

/// A value as it was written: when it is parsed, it can take many times as much memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raw(Box<RawValue>);

impl Raw {
    pub(crate) fn value(&self) -> Value {
        // It only fails for values that are nested too deeply, which the contract does not have.
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().len() > LARGEST_VALUE {
            return Err(D::Error::custom(format!(
                "a value is larger than {}",
                bytes(LARGEST_VALUE as u64)
            )));
        }

        Ok(Self(raw))
    }
}

/// A call of the plugin.
#[derive(Debug, Default)]
pub(crate) struct RecordedCall {
    /// Its number; 0 for the instantiation.
    pub(crate) number: u64,
    pub(crate) function: String,
    pub(crate) arguments: Raw,
    pub(super) steps: VecDeque<Step>,
    pub(super) ended: Option<Ended>,
}

/// Something that the plugin did during a call.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// It called a function of the host.
    Host {
        function: String,
        arguments: Raw,
        answer: Raw,
    },
    /// It sent the request of this exchange.
    Request(u64),
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    Answer(Raw),
    /// It ended the instance.
    Trap(String),
}

/// An HTTP exchange.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) request: Option<RequestHead>,
    /// The body of the request, and whether it is complete.
    pub(super) sent: Option<(Vec<u8>, bool)>,
    /// The host had read the whole body before there was a response.
    pub(super) sent_first: bool,
    pub(super) response: Option<ResponseHead>,
    pub(super) pieces: VecDeque<Vec<u8>>,
    pub(super) ending: Option<Ending>,
}

/// Returns the recordings in a directory in the order of their names, or the file itself.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, ScriptError> {
    let failed = |source| ScriptError::Io {
        path: path.to_owned(),
        source,
    };

    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }

    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().ends_with(SUFFIX) {
            found.push(entry.path());
        }
    }

    found.sort_unstable();
    if found.is_empty() {
        Err(ScriptError::None(path.to_owned()))
    } else {
        Ok(found)
    }
}

impl Script {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`ScriptError`].
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let failed = |source| ScriptError::Io {
            path: path.to_owned(),
            source,
        };

        let file = open(path).map_err(failed)?;
        // A device has no end, and no size either.
        if file.metadata().map_err(failed)?.len() > LARGEST {
            return Err(ScriptError::TooLarge(path.to_owned()));
        }

        let mut lines = BufReader::new(file.take(LARGEST)).split(b'\n');
        let wrong = |line: usize, reason: String| ScriptError::Line {
            path: path.to_owned(),
            line,
            reason,
        };

        let entry = |text: Vec<u8>, line: usize| {
            let parsed: Result<Line<Raw>, _> = serde_json::from_slice(&text);
            parsed.map_err(|error| wrong(line, error.to_string()))
        };
        let first = lines.next().transpose().map_err(failed)?;

        // The process may have ended while it wrote the header.
        let is_begun = |text: &[u8]| {
            START.starts_with(text) || text.starts_with(START) && !text.ends_with(b"}}")
        };

        if first.as_deref().is_none_or(is_begun) {
            return Err(ScriptError::Empty(path.to_owned()));
        }
        let header = match first.map(|text| entry(text, 1)).transpose()? {
            Some(Line::Recording(header)) if header.is_known() => header,
            _ => return Err(ScriptError::Header(path.to_owned())),
        };

        let mut script = Self {
            header,
            recorded_calls: vec![RecordedCall::default()],
            exchanges: BTreeMap::new(),
            cut: None,
        };
        let mut lines = lines.enumerate().peekable();

        // The header was line 1.
        while let Some((index, text)) = lines.next() {
            match entry(text.map_err(failed)?, index + 2) {
                Ok(entry) => script
                    .add(entry)
                    .map_err(|reason| wrong(index + 2, reason.to_owned()))?,
                // The process ended while it wrote the line.
                Err(_) if lines.peek().is_none() => {
                    script.cut = Some("its last line is incomplete".to_owned());
                }
                Err(error) => return Err(error),
            }
        }

        script.check_end();
        Ok(script)
    }

    /// Cuts the recording at a last call that has no end.
    fn check_end(&mut self) {
        let last = self.recorded_calls.last();

        if last.is_some_and(|call| call.number > 0 && call.ended.is_none()) {
            self.cut
                .get_or_insert_with(|| "its last call has no end".to_owned());
        }
    }

    fn exchange(&mut self, number: u64) -> Result<&mut Exchange, &'static str> {
        self.exchanges
            .get_mut(&number)
            .ok_or("its exchange has no request")
    }

    fn step(&mut self, step: Step) {
        if let Some(call) = self.recorded_calls.last_mut() {
            call.steps.push_back(step);
        }
    }

    fn end(&mut self, ended: Ended) -> Result<(), &'static str> {
        let call = self.recorded_calls.last_mut();
        let open = call.filter(|call| call.ended.is_none());
        open.ok_or("the call has ended before")?.ended = Some(ended);
        Ok(())
    }

    /// Adds a line. Whatever does not fit together is an error: nothing would be compared with it.
    fn add(&mut self, entry: Line<Raw>) -> Result<(), &'static str> {
        match entry {
            Line::Recording(_) => return Err("a recording has one header"),
            Line::Call {
                number,
                function,
                arguments,
            } => self.begin_call(RecordedCall {
                number,
                function,
                arguments,
                ..RecordedCall::default()
            })?,
            Line::Host {
                function,
                arguments,
                answer,
            } => self.step(Step::Host {
                function,
                arguments,
                answer,
            }),
            Line::Request { exchange, head } => self.begin_exchange(exchange, head)?,
            Line::RequestBody {
                exchange,
                body,
                complete,
            } => self.exchange(exchange)?.set_sent(body.0, complete)?,
            Line::Response { exchange, head } => self.exchange(exchange)?.set_response(head)?,
            Line::Piece { exchange, body } => self.exchange(exchange)?.pieces.push_back(body.0),
            Line::End { exchange, ending } => {
                // A recording may have another one for each later look at the end, without the
                // trailers.
                self.exchange(exchange)?.ending.get_or_insert(ending);
            }
            Line::Answer(answer) => self.end(Ended::Answer(answer))?,
            Line::Trap(kind) => self.end(Ended::Trap(kind))?,
            Line::Cut(why) => self.cut = Some(why),
        }

        Ok(())
    }

    /// Adds a call, which must follow the end of another one.
    fn begin_call(&mut self, call: RecordedCall) -> Result<(), &'static str> {
        match self.recorded_calls.last() {
            Some(RecordedCall {
                ended: Some(Ended::Trap(_)),
                ..
            }) => return Err("the instance had ended before"),
            Some(RecordedCall {
                number: 1..,
                ended: None,
                ..
            }) => return Err("the call before it has no end"),
            _ => {}
        }

        self.recorded_calls.push(call);
        Ok(())
    }

    /// Adds a request, whose exchange must be a new one.
    fn begin_exchange(&mut self, number: u64, head: RequestHead) -> Result<(), &'static str> {
        let Entry::Vacant(place) = self.exchanges.entry(number) else {
            return Err("another request has the number of its exchange");
        };

        place.insert(Exchange {
            request: Some(head),
            ..Exchange::default()
        });
        self.step(Step::Request(number));
        Ok(())
    }
}

impl Exchange {
    /// Adds the body of the request.
    fn set_sent(&mut self, body: Vec<u8>, complete: bool) -> Result<(), &'static str> {
        if self.sent.is_some() {
            return Err("its exchange has a request body before");
        }

        self.sent_first = complete && self.response.is_none() && self.ending.is_none();
        self.sent = Some((body, complete));
        Ok(())
    }

    /// Adds the response.
    fn set_response(&mut self, head: ResponseHead) -> Result<(), &'static str> {
        if self.response.is_some() {
            return Err("its exchange has a response before");
        }
        if !STATUS.contains(&head.status) {
            return Err("the status of a response is not valid; expected 100 to 999");
        }

        self.response = Some(head);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HEADER: &str = r#"{"recording":{"format":1,"contract":"0.1.0","skydock":"0.1.0","plugin":"p","generation":1,"component":"d","instance":1,"started-ms":1}}"#;

    fn read(text: &[u8]) -> Result<Script, ScriptError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, text).unwrap();
        Script::read(&path)
    }

    #[test]
    fn a_recording_is_read_by_calls_and_exchanges() {
        let lines = [
            HEADER,
            r#"{"host":{"function":"wall-clock.now","arguments":[],"answer":[1,2]}}"#,
            r#"{"call":{"number":1,"function":"zones.locate","arguments":[[]]}}"#,
            r#"{"request":{"exchange":1,"method":"GET","uri":"http://c:80/","headers":[]}}"#,
            r#"{"request-body":{"exchange":1,"body":{"text":""},"complete":true}}"#,
            r#"{"response":{"exchange":1,"status":200,"headers":[]}}"#,
            r#"{"answer":{"Ok":[]}}"#,
            r#"{"call":{"number":2,"function":"zones.locate","arguments":[[]]}}"#,
            r#"{"trap":"tr"#,
        ];
        let script = read(&lines.join("\n").into_bytes()).unwrap();
        assert_eq!(
            script
                .recorded_calls
                .iter()
                .map(|it| it.steps.len())
                .collect::<Vec<_>>(),
            [1, 1, 0]
        );
        let Some(Ended::Answer(answer)) = &script.recorded_calls[1].ended else {
            panic!("{:?}", script.recorded_calls)
        };
        assert_eq!(answer.value(), json!({"Ok": []}));
        assert_eq!(
            (
                script.recorded_calls[2].ended.is_none(),
                script.cut.is_some()
            ),
            (true, true)
        );
        assert!(script.exchanges[&1].sent_first);
    }

    #[test]
    fn a_recording_may_end_anywhere() {
        let lines = [
            HEADER,
            r#"{"call":{"number":1,"function":"zones.locate","arguments":["ü"]}}"#,
            r#"{"answer":{"Ok":["ü"]}}"#,
        ];
        let whole = format!("{}\n", lines.join("\n")).into_bytes();
        let first = HEADER.len() + 1;
        assert_eq!(read(&whole).unwrap().cut, None);
        for end in first + 1..whole.len() - 1 {
            // Also within a character.
            let script = read(&whole[..end]).unwrap();
            assert!(script.cut.is_some(), "{end}");
        }
        assert_eq!(read(&whole[..first]).unwrap().recorded_calls.len(), 1);
        for end in 0..HEADER.len() {
            assert!(
                matches!(read(&whole[..end]), Err(ScriptError::Empty(_))),
                "{end}"
            );
        }
    }

    #[test]
    fn other_files_are_rejected() {
        assert!(matches!(
            read(br#"{"answer":{"Ok":[]}}"#),
            Err(ScriptError::Header(_))
        ));
        assert!(matches!(
            read(HEADER.replace(":1,\"contract", ":9,\"contract").as_bytes()),
            Err(ScriptError::Header(_))
        ));
        assert!(matches!(
            read(format!("{HEADER}\n{{}}\n{{}}\n").as_bytes()),
            Err(ScriptError::Line { line: 2, .. })
        ));
    }

    #[test]
    fn lines_that_do_not_fit_together_are_rejected() {
        let call = r#"{"call":{"number":1,"function":"plugin.info","arguments":[]}}"#;
        let (answer, trap) = (r#"{"answer":null}"#, r#"{"trap":"cpu"}"#);
        let request =
            r#"{"request":{"exchange":1,"method":"GET","uri":"http://c:80/","headers":[]}}"#;
        let body = r#"{"request-body":{"exchange":1,"body":{"text":""},"complete":true}}"#;
        let response = r#"{"response":{"exchange":1,"status":200,"headers":[]}}"#;
        for (lines, expected) in [
            (vec![call, call, answer], "the call before it has no end"),
            (
                vec![call, trap, call, answer],
                "the instance had ended before",
            ),
            (vec![call, answer, answer], "the call has ended before"),
            (vec![call, answer, HEADER], "a recording has one header"),
            (
                vec![r#"{"piece":{"exchange":1,"body":{"text":""}}}"#, call],
                "its exchange has no request",
            ),
            (
                vec![call, request, request],
                "another request has the number of its exchange",
            ),
            (
                vec![call, request, body, body],
                "its exchange has a request body before",
            ),
            (
                vec![call, request, response, response],
                "its exchange has a response before",
            ),
            (
                vec![
                    call,
                    request,
                    r#"{"response":{"exchange":1,"status":99,"headers":[]}}"#,
                ],
                "the status of a response is not valid; expected 100 to 999",
            ),
        ] {
            let Err(error) = read([&[HEADER], &*lines].concat().join("\n").as_bytes()) else {
                panic!("{lines:?}")
            };
            assert!(
                error
                    .to_string()
                    .ends_with(&format!("not a line of a recording: {expected}")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_body_ends_once() {
        let lines = [
            HEADER,
            r#"{"request":{"exchange":1,"method":"GET","uri":"http://c:80/","headers":[]}}"#,
            r#"{"response":{"exchange":1,"status":200,"headers":[]}}"#,
            r#"{"end":{"exchange":1,"trailers":[["x-checksum","1"]]}}"#,
            r#"{"end":{"exchange":1,"trailers":null}}"#,
        ];
        let script = read(lines.join("\n").as_bytes()).unwrap();
        let trailers = vec![("x-checksum".to_owned(), "1".to_owned())];
        assert_eq!(
            script.exchanges[&1].ending,
            Some(Ending::Trailers(Some(trailers)))
        );
    }

    #[test]
    fn a_huge_recording_is_rejected_before_it_fills_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(LARGEST + 1)
            .unwrap();
        let error = Script::read(&path).map(drop).unwrap_err().to_string();
        assert!(
            error.ends_with("is larger than 256Mi, the maximum of a recording"),
            "{error}"
        );

        let value = format!(
            "{HEADER}\n{{\"answer\":\"{}\"}}\n{{}}\n",
            "a".repeat(LARGEST_VALUE)
        );
        let Err(error) = read(value.as_bytes()) else {
            panic!()
        };
        assert!(
            error.to_string().contains("a value is larger than 32Mi"),
            "{error}"
        );
    }

    #[test]
    fn values_are_kept_as_they_were_written() {
        // Parsed, they would take forty times as much.
        let text = format!(
            "{HEADER}\n{{\"call\":{{\"number\":1,\"function\":\"f\",\"arguments\":[{{}},{{}}]}}}}\n"
        );
        let script = read(text.as_bytes()).unwrap();
        assert_eq!(script.recorded_calls[1].arguments.0.get(), "[{},{}]");
    }
}
