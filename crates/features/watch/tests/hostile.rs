//! Files with any values: they are refused or read, without a panic, and figures stay in order.

use allotrope_profile::sampled::{SampledError, SampledProfile};
use allotrope_sampling::exponential::Generator;
use allotrope_trace::model::{
    EntryPoint, ImageStart, Origin, Record, Recording, Sample, SampleTotal, Sampling, SamplingTimes,
};
use allotrope_trace::{TraceReader, TraceWriter, WriteError};

/// Numbers at the edges of what fields can hold.
const EDGES: [u64; 8] = [0, 1, 2, 1 << 19, 1 << 40, 1 << 53, u64::MAX - 1, u64::MAX];

struct Numbers(Generator);

impl Numbers {
    fn any(&mut self) -> u64 {
        let random = self.0.next();
        match random % 3 {
            0 => random >> (random % 61),
            _ => EDGES[(random >> 8) as usize % EDGES.len()],
        }
    }

    fn period(&mut self) -> u64 {
        self.any().clamp(1, 1 << 40)
    }
}

fn image(image: u32) -> Record {
    Record::ImageStart(ImageStart {
        image,
        pid: 1,
        parent_pid: 0,
        origin: Origin::First,
        forked_from: None,
        fork_points: Vec::new(),
        executable: "/bin/x".into(),
        command: Vec::new(),
        tick: 5,
    })
}

fn file(records: &[Record]) -> Result<Vec<u8>, WriteError> {
    let mut writer = TraceWriter::sampled(Vec::new())?;
    writer.write(&Record::Recording(Recording::default()))?;
    for record in records {
        writer.write(record)?;
    }
    writer.finish()
}

fn samples(count: usize) -> Record {
    let sample = Sample {
        stack: 0,
        size: 1,
        period: 1,
        tick: 0,
        tid: 0,
        entry: EntryPoint::Malloc,
    };
    Record::Samples {
        image: 0,
        samples: vec![sample; count],
    }
}

#[test]
fn any_numbers_give_figures_in_order() {
    for seed in 0..2000 {
        let mut numbers = Numbers(Generator::seeded(&[seed]));
        let sampling = Record::Sampling(Sampling {
            image: 0,
            period: numbers.any().min(1 << 40),
            longest_period: numbers.any().min(1 << 40),
            lost_samples: numbers.any(),
            lost_stacks: numbers.any(),
            lost_totals: numbers.any(),
            unreadable: numbers.any(),
            times: (seed % 3 > 0).then(|| SamplingTimes {
                on_since: numbers.any(),
                off_since: numbers.any() * (seed % 2),
            }),
        });
        let samples = (0..seed % 7).map(|_| Sample {
            stack: numbers.any() as u32,
            size: numbers.any(),
            period: numbers.period(),
            tick: numbers.any(),
            tid: numbers.any() as u32,
            entry: EntryPoint::Calloc,
        });
        let samples = Record::Samples {
            image: 0,
            samples: samples.collect(),
        };
        let totals = (0..seed % 5).map(|_| {
            let sizes = [numbers.any(), numbers.any()];
            SampleTotal {
                stack: numbers.any() as u32,
                period: numbers.period(),
                smallest: sizes[0].min(sizes[1]),
                largest: sizes[0].max(sizes[1]),
                allocated: numbers.any(),
                allocated_bytes: numbers.any(),
                freed: numbers.any(),
                freed_bytes: numbers.any(),
            }
        });
        let totals = Record::SampleTotals {
            image: 0,
            totals: totals.collect(),
        };
        let file = file(&[image(0), sampling, samples, totals]).expect("a file");
        let trace = TraceReader::sampled(&file[..]).expect("a reader");
        let profile = SampledProfile::read(&trace).expect("a profile");
        let of_sites = profile.processes[0].sites.iter().copied();
        for figures in of_sites.chain(profile.totals()) {
            for set in [figures.live, figures.allocated, figures.freed] {
                for it in [set.bytes(), figures.blocks(&set)] {
                    assert!(it.low <= it.value && it.value <= it.high, "{seed}: {it:?}");
                }
            }
        }
        let _ = (profile.warnings(), profile.stack_set());
    }
}

#[test]
fn impossible_periods_and_sizes_are_not_written() {
    let sampling = |period| {
        Record::Sampling(Sampling {
            period,
            ..Sampling::default()
        })
    };
    assert!(file(&[image(0), sampling(1 << 40)]).is_ok());
    assert!(file(&[image(0), sampling((1 << 40) + 1)]).is_err());
    let mut none = samples(1);
    if let Record::Samples { samples, .. } = &mut none {
        samples[0].period = 0;
    }
    assert!(file(&[image(0), none]).is_err());
}

#[test]
fn more_samples_than_processes_keep_are_refused() {
    let part = samples(1 << 19);
    let mut records = vec![image(0), Record::Sampling(Sampling::default())];
    records.extend((0..8).map(|_| part.clone()));
    let read = |records: &[Record]| {
        let file = file(records).expect("a file");
        let trace = TraceReader::sampled(&file[..]).expect("a reader");
        SampledProfile::read(&trace)
    };
    assert!(read(&records).is_ok());
    records.push(samples(1));
    assert!(matches!(read(&records), Err(SampledError::TooMany)));
}
