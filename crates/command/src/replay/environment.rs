//! The environment in which allocators are measured, as the command line asks for it.

use std::ffi::OsString;

use allotrope_allocators::replay::Environment;
use allotrope_profile::operations::RecordedProcess;

/// The environment of a replay.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct EnvironmentArguments {
    /// Whose environment the replay has
    #[arg(long, value_enum, default_value_t, value_name = "WHOSE")]
    environment: Whose,
    /// Set a variable of the replay's environment
    ///
    /// Such as MALLOC_ARENA_MAX=1. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(OsString, OsString)>,
}

/// Whose environment a replay has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Whose {
    /// The recorded program's, without values; nobody's if the recording does not have it
    #[default]
    Recorded,
    /// That of this command
    Own,
    /// Nobody's: only what --env sets
    None,
}

impl EnvironmentArguments {
    /// The environment for a replay of this process.
    pub fn of_recording(&self, process: &RecordedProcess) -> Environment {
        let environment = match (self.environment, &process.environment) {
            (Whose::Recorded, Some(variables)) => Environment::of_recording(variables),
            (Whose::Own, _) => Environment::of_this_process(),
            (Whose::Recorded | Whose::None, _) => Environment::none(),
        };
        environment.with(&self.env)
    }

    /// The options that say the same, for a command line.
    pub fn options(&self) -> Vec<OsString> {
        let whose = match self.environment {
            Whose::Recorded => None,
            Whose::Own => Some("own"),
            Whose::None => Some("none"),
        };
        let whose = whose.map(|it| ["--environment".into(), it.into()]);
        let set = self.env.iter().map(|(name, value)| {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            ["--env".into(), variable]
        });
        whose.into_iter().chain(set).flatten().collect()
    }
}

/// Parses a variable of the environment.
pub fn variable(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some(("LD_PRELOAD", _)) => Err("LD_PRELOAD is the allocator's; name it in --alloc".into()),
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}
