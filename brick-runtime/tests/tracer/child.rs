//! This program again, for one scene.

use std::collections::BTreeMap;
use std::process::Command;

/// A scene with its arguments, and what to run it under.
pub(crate) struct Scene {
    under: Vec<String>,
    args: Vec<String>,
}

impl Scene {
    pub(crate) fn new<const N: usize>(args: [&str; N]) -> Scene {
        Scene {
            under: Vec::new(),
            args: args.map(String::from).to_vec(),
        }
    }

    pub(crate) fn under<const N: usize>(mut self, command: [&str; N]) -> Scene {
        self.under = command.map(String::from).to_vec();
        self
    }

    /// What it printed, line by line, word by word.
    fn output(self) -> Result<Vec<Vec<String>>, String> {
        let mut command: Vec<String> = self.under;
        command.push(std::env::current_exe().unwrap().display().to_string());
        command.push("scene".into());
        command.extend(self.args);
        let output = Command::new(&command[0]).args(&command[1..]).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command:?}: {}: {told}", output.status));
        }
        let text = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
        let words = |line: &str| line.split(' ').map(String::from).collect();
        Ok(text.lines().map(words).collect())
    }

    /// By the first word; `None` if it could not be run.
    pub(crate) fn try_run(self) -> Option<BTreeMap<String, Vec<String>>> {
        self.output().ok().map(by_key)
    }
}

/// What a scene printed.
pub(crate) fn lines(scene: Scene) -> Vec<Vec<String>> {
    scene.output().unwrap_or_else(|error| panic!("{error}"))
}

/// What a scene printed, by the first word of each line.
pub(crate) fn run(scene: Scene) -> BTreeMap<String, Vec<String>> {
    by_key(lines(scene))
}

fn by_key(lines: Vec<Vec<String>>) -> BTreeMap<String, Vec<String>> {
    let split = |line: Vec<String>| {
        let mut words = line.into_iter();
        (words.next().unwrap_or_default(), words.collect())
    };
    lines.into_iter().map(split).collect()
}
