//! Where debug files are sought beside the usual places: the options of
//! `record` and `symbolize` that say so.

use std::path::PathBuf;

use allotrope_text::Shown;

use allotrope_symbols::Locator;
use anyhow::{anyhow, bail};

/// The options.
#[derive(Debug, Default, clap::Args)]
pub struct DebugFiles {
    /// Look for debug files in DIR, too, which is laid out like /usr/lib/debug
    #[arg(long, value_name = "DIR")]
    pub debug_path: Vec<PathBuf>,
    /// Look for modules and their debug files below DIR, a copy of the file
    /// system of the machine (or container) that the program runs on
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Fetch debug files from the servers that DEBUGINFOD_URLS names
    #[arg(long)]
    pub debuginfod: bool,
}

impl DebugFiles {
    /// The servers to ask: none without `--debuginfod`.
    pub fn servers(&self) -> anyhow::Result<Vec<String>> {
        if !self.debuginfod {
            return Ok(Vec::new());
        }
        let servers = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
        let servers: Vec<_> = servers.split_whitespace().map(str::to_owned).collect();
        if servers.is_empty() {
            bail!("--debuginfod needs servers: name them in DEBUGINFOD_URLS");
        }
        Ok(servers)
    }

    /// A locator that looks there.
    pub fn locator(&self) -> anyhow::Result<Locator> {
        let folders = self.debug_path.iter().rev();
        let mut locator = folders.fold(Locator::new(), |locator, folder| {
            locator.with_debug_folder(folder)
        });
        if let Some(folder) = &self.sysroot {
            locator = locator.with_sysroot(folder);
        }
        Ok(locator.with_debuginfod_servers(self.servers()?))
    }

    /// The folders as paths that hold wherever the collector works.
    pub fn absolute(&self) -> anyhow::Result<(Vec<PathBuf>, Option<PathBuf>)> {
        let absolute = |path: &PathBuf| {
            let problem = |error| anyhow!("{} can not be used: {error}", path.shown());
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
