//! Errors of a config as people see them: the line, the place in it, what is allowed.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::check::Fault;
use crate::load::LoadError;

/// One thing that is wrong, and where.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// Bytes of the text.
    pub(crate) span: Range<usize>,
    /// What is wrong.
    pub(crate) message: String,
    /// What would be allowed.
    pub(crate) help: Option<String>,
}

impl Problem {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn fault(span: Range<usize>, fault: Fault) -> Self {
        Self { span, message: format!("`{}`: {}", fault.key, fault.message), help: fault.hint }
    }
}

/// All problems of a text, in its order.
pub(crate) fn render(mut problems: Vec<Problem>, text: &str, name: &str) -> LoadError {
    problems.sort_by_key(|p| (p.span.start, p.span.end));
    let groups: Vec<Group<'_>> = problems.iter().map(|p| group(p, text, name)).collect();
    LoadError(Renderer::plain().render(&groups).to_string())
}

fn group<'a>(problem: &'a Problem, text: &'a str, name: &'a str) -> Group<'a> {
    let start = problem.span.start.min(text.len());
    let span = start..problem.span.end.clamp(start, text.len());
    let snippet = Snippet::source(text).path(name).annotation(AnnotationKind::Primary.span(span));
    let group = Level::ERROR.primary_title(problem.message.as_str()).element(snippet);
    match &problem.help {
        Some(help) => group.element(Level::HELP.message(format!("allowed: {help}"))),
        None => group,
    }
}
