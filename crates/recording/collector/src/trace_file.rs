//! The trace file being written. The first error is stored and everything after it is
//! discarded; the draining thread checks for an error once per round, so the decoding of
//! a ring need not handle it.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use allotrope_files::FileId;
use allotrope_trace::model::{Event, ImageId, Record, StreamId};
use allotrope_trace::{TraceWriter, WriteError};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::CollectorError;
use crate::protocol::MadeFile;

pub(crate) struct TraceFile {
    writer: TraceWriter<File>,
    path: PathBuf,
    /// The permission bits that the file gets when it is complete.
    mode: Option<u32>,
    error: Option<WriteError>,
    /// Number of counted events (those with an ordinal) written.
    pub(crate) events: u64,
    /// Number of events in the losses written.
    pub(crate) lost_events: u64,
}

impl TraceFile {
    /// Begins a trace at `path`, in the file that the launcher `made` there, or else in
    /// a new one.
    pub(crate) fn create(path: &Path, made: Option<MadeFile>) -> Result<Self, CollectorError> {
        let opened = match made {
            Some(MadeFile { device, inode, .. }) => FileId { device, inode }.open(path),
            None => OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(path),
        };
        let locked = opened.inspect(|file| {
            // By the lock a reader recognises that the trace still grows. A file system
            // without locks is none of the user's concern.
            let _ = flock(file, FlockOperation::NonBlockingLockExclusive);
        });
        let writer = locked
            .map_err(|source| WriteError::Io { offset: 0, source })
            .and_then(TraceWriter::new)
            .map_err(|source| failure(path, source))?;
        Ok(Self {
            writer,
            path: path.to_owned(),
            mode: made.map(|made| made.mode),
            error: None,
            events: 0,
            lost_events: 0,
        })
    }

    /// Writes a record, unless writing failed before.
    pub(crate) fn write(&mut self, record: &Record) {
        if self.error.is_some() {
            return;
        }
        if let Record::Loss(loss) = record {
            self.lost_events = self.lost_events.saturating_add(loss.events);
        }
        self.error = self.writer.write(record).err();
    }

    /// Writes events, unless writing failed before; returns the number of those that
    /// have an ordinal.
    pub(crate) fn write_events(
        &mut self,
        image: ImageId,
        stream: StreamId,
        first_ordinal: u64,
        events: &[Event],
    ) -> u64 {
        if self.error.is_some() {
            return 0;
        }
        match self
            .writer
            .write_events(image, stream, first_ordinal, events)
        {
            Ok(counted) => {
                self.events += counted;
                counted
            }
            Err(error) => {
                self.error = Some(error);
                0
            }
        }
    }

    /// Writes buffered records to the file.
    pub(crate) fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.writer.flush().err();
        }
    }

    /// Returns the first error, if there was one.
    pub(crate) fn check(&mut self) -> Result<(), CollectorError> {
        match self.error.take() {
            None => Ok(()),
            Some(source) => Err(failure(&self.path, source)),
        }
    }

    /// Closes the trace; returns its length in bytes.
    pub(crate) fn finish(mut self) -> Result<u64, CollectorError> {
        self.check()?;
        let failed = |source| failure(&self.path, source);
        let file = self.writer.finish().map_err(failed)?;
        let length = file.metadata().map(|metadata| metadata.len());
        if let Some(mode) = self.mode {
            // Fails on a file system without permission bits.
            let _ = file.set_permissions(Permissions::from_mode(mode));
        }
        length.map_err(|source| failed(WriteError::Io { offset: 0, source }))
    }
}

fn failure(path: &Path, source: WriteError) -> CollectorError {
    CollectorError::Write {
        path: path.to_owned(),
        source,
    }
}
