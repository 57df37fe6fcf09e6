//! What `show` is asked about: a finding, a site or a function.

use std::path::Path;

use allotrope_attribution::Attributed;
use allotrope_findings::Finding;
use allotrope_profile::Profile;
use allotrope_report::sites_of_row;
use allotrope_report::text::{Screen, Subject, TextOptions};
use allotrope_text::{Shown, quoted, shown};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, Failure};
use crate::filter::nearest;

/// What is wanted: a finding, a site or a function; of one process, if that is wanted.
pub(super) fn subject<'a>(
    what: &str,
    path: &Path,
    screen: &Screen<'a>,
    options: &TextOptions,
) -> Result<Subject<'a>, Failure> {
    let mut subject = of_all_processes(what, path, screen, options)?;
    let Some(id) = options.process else {
        return Ok(subject);
    };
    let profile = screen.attributed.profile;
    subject.finding = subject.finding.and_then(|finding| finding.of_process(id));
    match subject.finding {
        Some(finding) => {
            subject.title = titled(what, finding);
            subject.next = after_a_change(path);
            subject.sites.clone_from(&finding.sites);
        }
        None => {
            let is_of = |site: &u32| profile.site(*site).is_some_and(|(it, _)| it.id == id);
            subject.sites.retain(is_of);
        }
    }
    if subject.finding.is_none() && subject.sites.is_empty() {
        let sentence = anyhow!("{} has no blocks of process {id}", shown(&subject.title));
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    Ok(subject)
}

fn of_all_processes<'a>(
    what: &str,
    path: &Path,
    screen: &Screen<'a>,
    options: &TextOptions,
) -> Result<Subject<'a>, Failure> {
    if let Ok(number) = what.parse::<usize>() {
        return finding(number, path, screen.findings);
    }
    let site = what
        .strip_prefix("site:")
        .or_else(|| what.strip_prefix('#'));
    match site.map(str::parse::<u32>) {
        Some(Ok(number)) => site_subject(number, path, screen.attributed, options),
        Some(Err(_)) => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "'{}' is no site; write its number, such as site:7",
                shown(what)
            ),
        )),
        None => function(what, path, screen),
    }
}

fn finding<'a>(
    number: usize,
    path: &Path,
    findings: &'a [Finding],
) -> Result<Subject<'a>, Failure> {
    let found = number.checked_sub(1).and_then(|index| findings.get(index));
    let Some(finding) = found else {
        let known = match findings.len() {
            0 => "nothing stands out in it; name a site (site:1) or a function".to_owned(),
            1 => "its only finding is 1".to_owned(),
            many => format!("its findings are 1 to {many}"),
        };
        let sentence = anyhow!("there is no finding {number} in {}: {known}", path.shown());
        return Err(Failure::new(BAD_INPUT, sentence));
    };
    let trace = quoted(path.as_os_str());
    let next = match finding.parts.is_empty() {
        true => after_a_change(path),
        false => format!(
            "in one of its processes: allotrope show {trace} {number} --process {}",
            finding.process
        ),
    };
    Ok(Subject {
        title: titled(&number.to_string(), finding),
        finding: Some(finding),
        sites: finding.sites.clone(),
        next,
    })
}

/// What to do after a finding.
fn after_a_change(path: &Path) -> String {
    let trace = quoted(path.as_os_str());
    format!("after a change, record again and `allotrope diff {trace} AFTER`")
}

/// The title of a finding with this number.
fn titled(number: &str, finding: &Finding) -> String {
    match finding.measure.is_empty() {
        true => format!("{number}  {}", finding.title),
        false => format!("{number}  {}: {}", finding.title, finding.measure),
    }
}

/// The failure if no site has this number.
pub fn no_site(number: u32, path: &Path, profile: &Profile) -> Failure {
    let last: usize = profile.processes.iter().map(|it| it.sites.len()).sum();
    let known = match last {
        0 => "it has none".to_owned(),
        last => format!("its sites are 1 to {last}"),
    };
    let sentence = anyhow!("there is no site {number} in {}: {known}", path.shown());
    Failure::new(BAD_INPUT, sentence)
}

fn site_subject(
    number: u32,
    path: &Path,
    attributed: &Attributed<'_>,
    options: &TextOptions,
) -> Result<Subject<'static>, Failure> {
    let profile = attributed.profile;
    let row = sites_of_row(attributed, number, options);
    if row.is_empty() {
        return Err(no_site(number, path, profile));
    }
    let in_row = |image, stack| row.contains(&(image, stack));
    let processes = profile.processes.iter();
    let sites = processes.flat_map(|process| {
        let sites = process.sites.iter();
        sites.filter(move |site| in_row(process.id, site.stack_id))
    });
    let trace = quoted(path.as_os_str());
    Ok(Subject {
        title: format!("site {number}"),
        finding: None,
        sites: sites.map(|site| site.number).collect(),
        next: format!("each block: allotrope show {trace} site:{number} --blocks"),
    })
}

/// The sites that a function heads; those that it is a caller of if it heads none. Its
/// name, the last part of its name, or a part of it that no other function has.
fn function(what: &str, path: &Path, screen: &Screen<'_>) -> Result<Subject<'static>, Failure> {
    let Attributed { profile, headlines } = screen.attributed;
    let names = profile.frames.iter().map(|frame| &*frame.function);
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let lower = what.to_lowercase();
    let tests: [&dyn Fn(&str) -> bool; 3] = [
        &|name| name == what,
        &|name| name.rsplit("::").next() == Some(what),
        &|name| name.to_lowercase().contains(&lower),
    ];
    let sites = || profile.processes.iter().flat_map(|process| &process.sites);
    let name_of = |frame: u32| {
        let frame = profile.frames.get(frame as usize);
        frame.map_or("", |frame| &*frame.function)
    };
    let mut found: Vec<&str> = Vec::new();
    for test in tests {
        found = names.iter().copied().filter(|name| test(name)).collect();
        if !found.is_empty() {
            break;
        }
    }
    let headed = |name: &str| -> Vec<u32> {
        let headed = sites().filter(|site| {
            let head = headlines.head(site);
            head.is_some_and(|frame| name_of(frame) == name)
        });
        headed.map(|site| site.number).collect()
    };
    // Of several functions with such a name, those that head a stack are meant.
    if found.len() > 1 {
        let heading: Vec<&str> = found
            .iter()
            .copied()
            .filter(|it| !headed(it).is_empty())
            .take(8)
            .collect();
        if !heading.is_empty() {
            found = heading;
        }
    }
    let [name] = found[..] else {
        let remedy = match found.is_empty() {
            true => {
                let near = nearest(what, names.iter().copied());
                match near.is_empty() {
                    true => "no function has a similar name".to_owned(),
                    false => format!("nearest: {}", near.join(", ")),
                }
            }
            false => {
                let some: Vec<_> = found.iter().take(5).map(|name| shown(name)).collect();
                format!("name one of them: {}", some.join(", "))
            }
        };
        let how_many = match found.len() {
            0 => "no function".to_owned(),
            _ => "several functions".to_owned(),
        };
        let (what, path) = (shown(what), path.shown());
        let sentence = anyhow!("'{what}' is the name of {how_many} in {path}; {remedy}");
        return Err(Failure::new(BAD_INPUT, sentence));
    };
    let mut numbers = headed(name);
    let mut title = name.to_owned();
    if numbers.is_empty() {
        title.push_str(", with what it calls");
        let through = sites().filter(|site| site.stack.iter().any(|&it| name_of(it) == name));
        numbers = through.map(|site| site.number).collect();
    }
    let trace = quoted(path.as_os_str());
    let filter = quoted(name.as_ref());
    Ok(Subject {
        title,
        finding: None,
        sites: numbers,
        next: format!("its callers: allotrope report {trace} --tree bottom-up --filter {filter}"),
    })
}
