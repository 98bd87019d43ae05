//! Who recorded a span.

use super::attribute::Attributes;
use std::borrow::Cow;
use std::env;

/// What is the same for all spans of a process: OpenTelemetry's resource.
/// <https://opentelemetry.io/docs/specs/semconv/resource/>
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// `service.name`, `host.name`, `process.pid`, ….
    pub attributes: Attributes,
}

impl Resource {
    /// This process. Arguments are left out: they may hold what should not leave the machine.
    ///
    /// The environment goes first, as OpenTelemetry's specification has it: `OTEL_SERVICE_NAME`,
    /// then what `OTEL_RESOURCE_ATTRIBUTES` says (`key=value,key=value`, values percent-encoded; a
    /// variable that does not have this form is left aside as a whole), then `service_name` and what
    /// is found here. What cannot be found out is left out.
    #[must_use]
    pub fn detect(service_name: &str) -> Resource {
        let mut attributes = Attributes::new()
            .and("service.name", service_name.to_owned())
            .and_if("host.name", host_name())
            .and("host.arch", arch())
            .and("os.type", env::consts::OS)
            .and("process.pid", std::process::id());
        if let Ok(path) = env::current_exe() {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            attributes = attributes.and_if("process.executable.name", name).and(
                "process.executable.path",
                path.to_string_lossy().into_owned(),
            );
        }
        attributes = attributes
            .and("telemetry.sdk.name", env!("CARGO_PKG_NAME"))
            .and("telemetry.sdk.language", "rust")
            .and("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
        let set = |variable| env::var(variable).ok().filter(|value| !value.is_empty());
        for (key, value) in set("OTEL_RESOURCE_ATTRIBUTES")
            .and_then(|list| pairs(&list))
            .unwrap_or_default()
        {
            attributes.set(key, value);
        }
        if let Some(name) = set("OTEL_SERVICE_NAME") {
            attributes.set("service.name", name);
        }
        Resource { attributes }
    }

    /// With more attributes.
    #[must_use]
    pub fn with(mut self, attributes: Attributes) -> Resource {
        self.attributes.extend(attributes);
        self
    }
}

/// The name that the kernel has for the machine.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| env::var("HOSTNAME").ok())?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The convention has names of its own for some.
fn arch() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "x86",
        "arm" => "arm32",
        other => other,
    }
}

/// The lists of OpenTelemetry's variables: `a=b,c=d`, where `=`, `,` and what is not printable are percent-encoded.
pub(crate) fn pairs(list: &str) -> Option<Vec<(Cow<'static, str>, String)>> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let key = decoded(key.trim())?;
        (!key.is_empty()).then_some(())?;
        Some((Cow::Owned(key), decoded(value.trim())?))
    };
    list.split(',').map(pair).collect()
}

/// Text with `%2C` and the like resolved; `None` where that is not UTF-8 or not hexadecimal.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high << 4 | low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_by_the_specification() {
        let read = |list| {
            pairs(list).map(|pairs| {
                pairs
                    .into_iter()
                    .map(|(key, value)| format!("{key}:{value}"))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        assert_eq!(read("a=b, c = d").as_deref(), Some("a:b c:d"));
        assert_eq!(read("k=a%2Cb%3Dc,u=%C3%A4").as_deref(), Some("k:a,b=c u:ä"));
        assert_eq!(read("k=a=b").as_deref(), Some("k:a=b"));
        for wrong in ["a", "a=b,", "=b", "a=%2", "a=%zz", "a=%ff"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
