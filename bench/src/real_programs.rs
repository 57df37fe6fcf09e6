//! The rows with widely used programs, and the work for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::job::{Client, ClientKind, Figure, Job};
use crate::row::{Aim, Extent, MakeJob, Row};
use crate::server;
use crate::workshop::{installed, python};

/// All of them.
pub fn rows(extent: Extent) -> Vec<Row> {
    vec![
        compiler(extent),
        database(extent),
        interpreter(extent),
        filter(extent),
        server(extent),
    ]
}

fn row(name: &str, what: &str, aim: Option<Aim>, job: MakeJob) -> Row {
    Row {
        name: name.to_owned(),
        what: what.to_owned(),
        aim,
        threads: 1,
        is_counted: false,
        has_free_stacks: name == "sqlite3",
        is_cpp: false,
        job,
    }
}

/// The compiler proper (`cc1plus`), because heaptrack would record only the driver.
fn compiler(extent: Extent) -> Row {
    let depth = match extent {
        Extent::Full => "-O2",
        Extent::Quick => "-fsyntax-only",
    };
    let job = move |source: PathBuf| -> Result<Job> {
        let mut arguments: Vec<OsString> = vec!["-quiet".into(), depth.into()];
        let multiarch = ask_gcc("-print-multiarch")?;
        if !multiarch.is_empty() {
            arguments.extend(["-imultiarch".into(), multiarch.into()]);
        }
        arguments.extend(["-D_GNU_SOURCE", "-std=c++20", "-o", "/dev/null"].map(Into::into));
        arguments.push(source.into());
        let program = PathBuf::from(ask_gcc("-print-prog-name=cc1plus")?);
        ensure!(
            program.is_absolute(),
            "g++ does not print the path of cc1plus"
        );
        Ok(Job::new(program, arguments))
    };
    Row {
        is_cpp: true,
        ..row(
            "cc1plus",
            "cc1plus -O2, a heavy C++ file",
            Some(Aim::Times(1.15)),
            Box::new(move |workshop| job(workshop.source("heavy.cc"))),
        )
    }
}

fn ask_gcc(question: &str) -> Result<String> {
    let output = Command::new(installed("g++")?)
        .arg(question)
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "g++ {question} failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn database(extent: Extent) -> Row {
    let rows = extent.of(600_000);
    row(
        "sqlite3",
        "sqlite3, 600 K rows in memory",
        Some(Aim::Times(1.15)),
        Box::new(move |workshop| {
            let parameter = format!(".parameter set :rows {rows}");
            let job = Job::new(
                installed("sqlite3")?,
                ["-cmd", parameter.as_str(), ":memory:"],
            );
            let input = Some(workshop.source("tables.sql"));
            Ok(Job { input, ..job })
        }),
    )
}

fn interpreter(extent: Extent) -> Row {
    let lines = extent.of(90_000);
    row(
        "python3",
        "python3, PYTHONMALLOC=malloc",
        Some(Aim::Times(1.5)),
        Box::new(move |workshop| {
            let script: OsString = workshop.source("words.py").into();
            let job = Job::new(python()?, [script, lines.to_string().into()]);
            let environment = vec![("PYTHONMALLOC", "malloc")];
            Ok(Job { environment, ..job })
        }),
    )
}

fn filter(extent: Extent) -> Row {
    const PROGRAM: &str = "group_by(.kind) | map({kind: .[0].kind, number: length, \
                           sum: (map(.value) | add), tags: (map(.tags[0]) | unique)})";
    row(
        "jq",
        "jq, a file of 10 MB",
        None,
        Box::new(move |workshop| {
            let input = Some(workshop.json(extent.of(10_000_000) as usize)?);
            let job = Job::new(installed("jq")?, [PROGRAM]);
            Ok(Job { input, ..job })
        }),
    )
}

/// redis-server.
pub fn server(extent: Extent) -> Row {
    let requests = extent.of(200_000);
    row(
        "redis",
        "redis-server under redis-benchmark, throughput",
        Some(Aim::Part(0.85)),
        Box::new(move |workshop| {
            installed("redis-benchmark")?;
            let port = server::free_port()?;
            let client = Some(Client {
                kind: ClientKind::Redis,
                port,
                amount: requests,
            });
            let program = installed("redis-server")?;
            let figure = Figure::Requests;
            let job = Job::new(program, settings(port, workshop.folder()));
            Ok(Job {
                figure,
                client,
                ..job
            })
        }),
    )
}

/// nginx, which serves a small file in one process.
pub fn web_server(extent: Extent) -> Row {
    let seconds = extent.of(100) / 20 + 1;
    row(
        "nginx",
        "nginx under wrk, throughput",
        Some(Aim::Part(0.98)),
        Box::new(move |workshop| {
            installed("wrk")?;
            let port = server::free_port()?;
            let client = Some(Client {
                kind: ClientKind::Wrk,
                port,
                amount: seconds,
            });
            let folder = workshop.folder();
            let settings = folder.join("nginx.conf");
            std::fs::write(&settings, web_settings(port, folder))?;
            std::fs::write(folder.join("index.html"), "x".repeat(612))?;
            let program = installed("nginx").or_else(|_| at("/usr/sbin/nginx"))?;
            let job = Job::new(program, ["-c".into(), OsString::from(settings)]);
            Ok(Job {
                figure: Figure::Requests,
                client,
                ..job
            })
        }),
    )
}

fn at(path: &str) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    ensure!(path.is_file(), "{} is not installed", path.display());
    Ok(path)
}

/// Settings of nginx: one process in the foreground, everything in `folder`.
fn web_settings(port: u16, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "daemon off; master_process off; pid {folder}/server.pid; error_log stderr crit;
         events {{ worker_connections 256; }}
         http {{
           access_log off; gzip on; gzip_min_length 1; gzip_types *;
           client_body_temp_path {folder}; proxy_temp_path {folder};
           fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
           server {{ listen 127.0.0.1:{port}; root {folder}; }}
         }}"
    )
}

/// Settings of a server that writes nothing to disk.
fn settings(port: u16, folder: &Path) -> Vec<OsString> {
    let mut settings: Vec<OsString> = ["--save", "", "--appendonly", "no", "--dir"]
        .map(Into::into)
        .to_vec();
    settings.push(folder.into());
    settings.extend(["--port".into(), port.to_string().into()]);
    settings
}
