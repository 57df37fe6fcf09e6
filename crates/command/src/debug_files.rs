//! The options of `record` and `symbolize` that set where debug files are searched.

use std::path::PathBuf;

use allotrope_formats::Limits;
use allotrope_symbols::Locator;
use allotrope_text::Shown;
use anyhow::{anyhow, bail};

/// The options.
#[derive(Debug, Default, clap::Args)]
pub struct DebugFiles {
    /// Look for debug files in DIR, too
    ///
    /// It is laid out like /usr/lib/debug.
    #[arg(long, value_name = "DIR")]
    pub debug_path: Vec<PathBuf>,
    /// Look for modules and debug files below DIR
    ///
    /// DIR is a copy of the file system of the machine (or container) that the program runs on.
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Fetch debug files from the servers in DEBUGINFOD_URLS
    #[arg(long)]
    pub debuginfod: bool,
}

impl DebugFiles {
    /// The servers to fetch from: none without `--debuginfod`.
    pub fn servers(&self) -> anyhow::Result<Vec<String>> {
        if !self.debuginfod {
            return Ok(Vec::new());
        }
        if !Locator::can_fetch() {
            bail!(
                "--debuginfod needs the program debuginfod-find (Debian's package debuginfod), or an allotrope that was built with the feature `debuginfod`"
            );
        }
        let servers = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
        let servers: Vec<_> = servers.split_whitespace().map(str::to_owned).collect();
        if servers.is_empty() {
            bail!("--debuginfod needs servers; name them in DEBUGINFOD_URLS");
        }
        Ok(servers)
    }

    /// A locator with these options, which demangles names within the limits.
    pub fn locator(&self, limits: Limits) -> anyhow::Result<Locator> {
        let folders = self.debug_path.iter().rev();
        let mut locator = folders.fold(Locator::new(), |locator, folder| {
            locator.with_debug_folder(folder)
        });
        if let Some(folder) = &self.sysroot {
            locator = locator.with_sysroot(folder);
        }
        let locator = locator.with_most_names(limits.names());
        Ok(locator.with_debuginfod_servers(self.servers()?))
    }

    /// The debug folders and the sysroot as absolute paths: the collector may run in
    /// another working directory.
    pub fn absolute(&self) -> anyhow::Result<(Vec<PathBuf>, Option<PathBuf>)> {
        let absolute = |path: &PathBuf| {
            let problem = |error| anyhow!("cannot use {}: {error}", path.shown());
            std::path::absolute(path).map_err(problem)
        };
        let folders = self.debug_path.iter().map(absolute);
        let sysroot = self.sysroot.as_ref().map(absolute);
        Ok((
            folders.collect::<anyhow::Result<_>>()?,
            sysroot.transpose()?,
        ))
    }
}
