//! Commands with what they print, as a reader would type and see them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One command of a `console` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Behind the `$ `; lines that end with a backslash are joined.
    pub command: String,
    /// What is shown of its output.
    pub shown: String,
}

/// The commands of a block. What stands before the first is an error, told as a sentence.
///
/// # Errors
/// Output without a command.
pub fn steps(block: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command: command.into(),
                shown: String::new(),
            });
        } else {
            let last = steps
                .last_mut()
                .ok_or_else(|| format!("`{line}` follows no `$ ` command"))?;
            if continued {
                last.command.push('\n');
                last.command.push_str(line);
            } else {
                last.shown.push_str(line);
                last.shown.push('\n');
            }
        }
        continued = line.ends_with('\\') && (continued || line.starts_with("$ "));
    }
    Ok(steps)
}

/// Where commands are run: `cd` stays in force.
#[derive(Debug)]
pub struct Shell {
    directory: PathBuf,
}

impl Shell {
    /// One that starts in `directory`.
    #[must_use]
    pub fn new(directory: &Path) -> Shell {
        Shell {
            directory: directory.to_owned(),
        }
    }

    /// Runs one command with bash: what it printed to standard output, then, if it failed, a line
    /// `? code`.
    ///
    /// # Errors
    /// Where there is no bash; where `cd` leads nowhere; where a command that shows no failure
    /// failed, with what it said on standard error.
    pub fn run(&mut self, step: &Step) -> Result<String, String> {
        if let Some(into) = step.command.strip_prefix("cd ") {
            self.directory.push(into.trim());
            return if self.directory.is_dir() {
                Ok(String::new())
            } else {
                Err(format!("{} is no directory", self.directory.display()))
            };
        }
        // As for a reader: what cargo told this test about its own package is not for them.
        let of_cargo = std::env::vars_os().map(|(name, _)| name).filter(|name| {
            let name = name.to_string_lossy();
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "CARGO_CRATE_NAME"
        });
        let mut bash = Command::new("bash");
        bash.args(["-c", &step.command])
            .current_dir(&self.directory)
            .env("NO_COLOR", "1");
        for name in of_cargo {
            bash.env_remove(name);
        }
        let done = bash
            .output()
            .map_err(|error| format!("bash cannot be run: {error}"))?;
        let mut printed = String::from_utf8_lossy(&done.stdout).into_owned();
        if !done.status.success() {
            let code = done
                .status
                .code()
                .map_or_else(|| "killed".into(), |code| code.to_string());
            let is_shown = step.shown.lines().any(|line| line.starts_with("? "));
            if !is_shown {
                return Err(format!(
                    "failed ({code}):\n{printed}{}",
                    String::from_utf8_lossy(&done.stderr)
                ));
            }
            let _ = writeln!(printed, "? {code}");
        }
        Ok(printed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Shell, Step, steps};

    fn step(command: &str, shown: &str) -> Step {
        Step {
            command: command.into(),
            shown: shown.into(),
        }
    }

    #[test]
    fn commands_and_what_they_show() {
        assert_eq!(
            steps("$ cargo build \\\n    --release\nDone.\n\n$ ls\n").unwrap(),
            [
                step("cargo build \\\n    --release", "Done.\n\n"),
                step("ls", "")
            ]
        );
        // A backslash in output continues nothing.
        assert_eq!(steps("$ a\nb \\\nc\n").unwrap(), [step("a", "b \\\nc\n")]);
        assert!(steps("Done.\n$ ls\n").is_err());
    }

    #[test]
    fn commands_run_and_failures_are_shown_or_errors() {
        let mut shell = Shell::new(Path::new("/"));
        assert_eq!(
            shell
                .run(&step("echo one \\\n  two; echo three >&2", ""))
                .unwrap(),
            "one two\n"
        );
        assert_eq!(
            shell.run(&step("echo no; exit 3", "no\n? 3\n")).unwrap(),
            "no\n? 3\n"
        );
        let error = shell.run(&step("echo why >&2; exit 3", "")).unwrap_err();
        assert!(
            error.contains("failed (3)") && error.contains("why"),
            "{error}"
        );
        shell.run(&step("cd tmp", "")).unwrap();
        assert_eq!(shell.run(&step("pwd", "")).unwrap(), "/tmp\n");
        assert!(shell.run(&step("cd no-such-directory", "")).is_err());
    }
}
