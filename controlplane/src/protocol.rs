//! The words on the socket: JSON-RPC 2.0, one object a line.
//!
//! ```text
//! → {"jsonrpc":"2.0","id":7,"method":"server.add","params":{…}}
//! ← {"jsonrpc":"2.0","id":7,"result":…}
//! ← {"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":…,"data":{"code":"no_such_service","hint":…}}}
//! ```
//! The string code in `data` is the stable one; numbers are JSON-RPC's. A request must have an id:
//! there are no notifications, because an operator wants to know what became of a change. A line
//! ends with `\n` and is at most [`MAX_LINE`] bytes long; answers have no limit.
//!
//! Nothing here reads or writes a socket, so that any bytes can be tried on it.

mod strict;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::change::Refusal;
use strict::Strict;

/// Version of the protocol, as `hello` tells it. It rises when a client must change.
pub const VERSION: u32 = 1;
/// Longest request, in bytes, without its line end. More goes by `batch.begin`.
pub const MAX_LINE: usize = 1 << 20;

/// One request, its envelope checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// A number or a string; comes back in the answer.
    pub id: Value,
    /// What to do, such as `server.add`.
    pub method: String,
    /// With what: always an object, empty if left out.
    pub params: Value,
}

/// Why a request was not carried out: the `error` of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// JSON-RPC's number: one of the constants below.
    pub code: i32,
    /// What is wrong, in a sentence.
    pub message: String,
    /// The part for programs, and what to do next.
    pub data: Box<FailureData>,
}

/// The stable part of a [`Failure`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureData {
    /// Stable: programs may compare it.
    pub code: String,
    /// What to do next; may be empty.
    #[serde(default)]
    pub hint: String,
    /// The change of a batch that was refused, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<usize>,
    /// The lcores that have not yet taken a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lcores: Vec<u16>,
}

/// Not JSON.
pub const BAD_JSON: i32 = -32700;
/// JSON, but not a request.
pub const BAD_REQUEST: i32 = -32600;
/// A request for something that does not exist.
pub const NO_SUCH_METHOD: i32 = -32601;
/// Parameters that the method does not take.
pub const BAD_PARAMS: i32 = -32602;
/// A request that was understood and refused.
pub const REFUSED: i32 = -32000;

impl Failure {
    /// A failure with its stable code.
    pub fn new(number: i32, code: &str, message: impl Into<String>, hint: &str) -> Self {
        let data = Box::new(FailureData {
            code: code.to_owned(),
            hint: hint.to_owned(),
            change: None,
            lcores: Vec::new(),
        });
        Self { code: number, message: message.into(), data }
    }

    /// A request that was understood and refused.
    pub fn refused(code: &str, message: impl Into<String>, hint: &str) -> Self {
        Self::new(REFUSED, code, message, hint)
    }

    /// Parameters that do not fit.
    pub fn bad_params(message: impl Into<String>, hint: &str) -> Self {
        Self::new(BAD_PARAMS, "bad_params", message, hint)
    }

    fn bad_request(message: impl Into<String>, hint: &str) -> Self {
        Self::new(BAD_REQUEST, "bad_request", message, hint)
    }

    /// A line beyond [`MAX_LINE`].
    #[must_use]
    pub fn too_large() -> Self {
        let message = format!("the request is longer than {MAX_LINE} bytes");
        let hint = "send a long batch in parts: batch.begin, batch.chunk, batch.commit";
        Self::new(BAD_REQUEST, "request_too_large", message, hint)
    }
}

impl From<Refusal> for Failure {
    fn from(r: Refusal) -> Self {
        let mut failure =
            Self::refused(r.code.name(), r.message, r.hint.as_deref().unwrap_or_default());
        failure.data.change = r.change;
        failure.data.lcores = r.lcores;
        failure
    }
}

/// Reads one line (without its end) as a request.
///
/// # Errors
/// The failure to answer with, and the id to answer to as far as it could be read.
pub fn decode(line: &[u8]) -> Result<Request, (Value, Failure)> {
    let bad_json = |what: String| {
        let hint = "a request is one JSON object on one line";
        (Value::Null, Failure::new(BAD_JSON, "bad_json", what, hint))
    };
    let text = std::str::from_utf8(line).map_err(|e| bad_json(format!("not UTF-8: {e}")))?;
    let Strict(value) = serde_json::from_str(text).map_err(|e| match e.classify() {
        serde_json::error::Category::Data => {
            (Value::Null, Failure::bad_request(e.to_string(), "give each field once"))
        }
        _ => bad_json(format!("not JSON: {e}")),
    })?;
    let Value::Object(fields) = value else {
        let what = "a request is an object, not an array or a plain value";
        let hint = "use the method \"batch\" for several changes at once";
        return Err((Value::Null, Failure::bad_request(what, hint)));
    };
    envelope(fields)
}

const EXAMPLE: &str = r#"a request looks like {"jsonrpc":"2.0","id":1,"method":"hello"}"#;

fn envelope(mut fields: Map<String, Value>) -> Result<Request, (Value, Failure)> {
    let id = match fields.remove("id") {
        Some(id @ (Value::Number(_) | Value::String(_))) => id,
        Some(_) => {
            let what = "field `id` must be a number or a string";
            return Err((Value::Null, Failure::bad_request(what, EXAMPLE)));
        }
        None => return Err((Value::Null, Failure::bad_request("missing field `id`", EXAMPLE))),
    };
    let refuse = |what: String| (id.clone(), Failure::bad_request(what, EXAMPLE));
    match fields.remove("jsonrpc") {
        Some(Value::String(v)) if v == "2.0" => {}
        Some(_) => return Err(refuse("field `jsonrpc` must be \"2.0\"".into())),
        None => return Err(refuse("missing field `jsonrpc`".into())),
    }
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(refuse("field `method` must be a string".into())),
        None => return Err(refuse("missing field `method`".into())),
    };
    let params = match fields.remove("params") {
        Some(params @ Value::Object(_)) => params,
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(_) => return Err(refuse("field `params` must be an object".into())),
    };
    match fields.keys().next() {
        Some(extra) => Err(refuse(format!("unknown field `{extra}`"))),
        None => Ok(Request { id, method, params }),
    }
}

/// Reads a method's parameters.
///
/// # Errors
/// [`Failure::bad_params`] that names the field.
pub fn params<T: DeserializeOwned>(params: Value) -> Result<T, Failure> {
    serde_path_to_error::deserialize(params).map_err(|e| {
        let path = e.path().to_string();
        let what = if path == "." {
            e.inner().to_string()
        } else {
            format!("field `{path}`: {}", e.inner())
        };
        Failure::bad_params(what, "")
    })
}

/// A request as a line, with its end.
///
/// # Panics
/// Never: these values always have a JSON form.
#[must_use]
pub fn request_line(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Out<'a, P> {
        jsonrpc: &'a str,
        id: u64,
        method: &'a str,
        params: &'a P,
    }
    line(&Out { jsonrpc: "2.0", id, method, params })
}

/// An answer as a line, with its end.
#[must_use]
pub fn answer_line(id: &Value, outcome: &Result<Value, Failure>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Out<'a> {
        jsonrpc: &'a str,
        id: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Failure>,
    }
    let (result, error) = (outcome.as_ref().ok(), outcome.as_ref().err());
    line(&Out { jsonrpc: "2.0", id, result, error })
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("no map with keys that are not strings");
    bytes.push(b'\n');
    bytes
}

/// An answer, as a client reads it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Answer {
    /// The request's id; null when the director could not read it.
    pub id: Value,
    /// What the method returned.
    #[serde(default)]
    pub result: Value,
    /// Why it was not carried out.
    #[serde(default)]
    pub error: Option<Failure>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn code(line: &str) -> (Value, String, String) {
        let (id, f) = decode(line.as_bytes()).unwrap_err();
        (id, f.data.code, f.message)
    }

    #[test]
    fn a_request_comes_back_as_it_was_sent() {
        let line = request_line(7, "server.add", &json!({"weight": 3}));
        assert_eq!(line.last(), Some(&b'\n'));
        let request = decode(&line[..line.len() - 1]).unwrap();
        assert_eq!(request.id, json!(7));
        assert_eq!(request.method, "server.add");
        assert_eq!(request.params, json!({"weight": 3}));
    }

    #[test]
    fn what_is_wrong_with_an_envelope_is_named() {
        let good = r#"{"jsonrpc":"2.0","id":"a","method":"hello"}"#;
        assert_eq!(decode(good.as_bytes()).unwrap().params, json!({}));
        for (line, id, stable, part) in [
            ("", json!(null), "bad_json", "EOF"),
            ("{", json!(null), "bad_json", "EOF"),
            ("hello", json!(null), "bad_json", "not JSON"),
            ("[]", json!(null), "bad_request", "object"),
            ("{}", json!(null), "bad_request", "`id`"),
            (r#"{"id":1}"#, json!(1), "bad_request", "`jsonrpc`"),
            (r#"{"id":[1]}"#, json!(null), "bad_request", "`id`"),
            (r#"{"id":1,"jsonrpc":2.0}"#, json!(1), "bad_request", "`jsonrpc`"),
            (r#"{"id":1,"jsonrpc":"2.0"}"#, json!(1), "bad_request", "`method`"),
            (r#"{"id":1,"jsonrpc":"2.0","method":4}"#, json!(1), "bad_request", "`method`"),
            (
                r#"{"id":1,"jsonrpc":"2.0","method":"x","params":[1]}"#,
                json!(1),
                "bad_request",
                "`params`",
            ),
            (
                r#"{"id":1,"jsonrpc":"2.0","method":"x","parms":{}}"#,
                json!(1),
                "bad_request",
                "`parms`",
            ),
            (r#"{"id":1,"id":1}"#, json!(null), "bad_request", "duplicate field `id`"),
            (r#"{"a":{"b":[{"c":1,"c":2}]}}"#, json!(null), "bad_request", "duplicate field `c`"),
        ] {
            let (got_id, got, message) = code(line);
            assert_eq!((got_id, got.as_str()), (id, stable), "{line}");
            assert!(message.contains(part), "{line}: {message}");
        }
        assert_eq!(decode(b"{\"id\":\"\xff\"}").unwrap_err().1.code, BAD_JSON);
        let deep = "[".repeat(100_000);
        assert_eq!(code(&deep).1, "bad_json");
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Sample {
        server: Inner,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Inner {
        port: u16,
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        for (value, part) in [
            (json!({}), "missing field `server`"),
            (json!({"server": {}}), "missing field `port`"),
            (json!({"server": {"port": "x"}}), "field `server.port`: invalid type: string"),
            (json!({"server": {"port": 65536}}), "field `server.port`"),
            (json!({"server": {"port": 1, "prot": 2}}), "unknown field `prot`"),
        ] {
            let failure = params::<Sample>(value).unwrap_err();
            assert_eq!(failure.data.code, "bad_params");
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }

    #[test]
    fn an_answer_has_a_result_or_an_error() {
        let ok = answer_line(&json!(3), &Ok(json!(null)));
        assert_eq!(ok, b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":null}\n");
        let failure = Failure::refused("no_such_service", "no service \"x\"", "list them");
        let line = answer_line(&json!("q"), &Err(failure.clone()));
        let answer: Answer = serde_json::from_slice(&line).unwrap();
        assert_eq!(answer.id, json!("q"));
        assert_eq!(answer.error, Some(failure));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn no_tokens_make_it_panic(
            tokens in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", "\"id\"", "\"jsonrpc\"", "\"2.0\"", "\"method\"",
                    "\"params\"", "1", "-1e999", "null", "true", "\"\\u0000\"", "\\", "\"",
                ]),
                0..40,
            )
        ) {
            let _ = decode(tokens.concat().as_bytes());
        }
    }
}
