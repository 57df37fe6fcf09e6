//! What keys do.

use crate::live::key::Key;
use crate::live::{Action, AtEnd, MAX_TYPED, Screen, Sort, View};

impl View {
    /// Takes a key.
    pub fn key(&mut self, key: Key) -> Option<Action> {
        match key {
            Key::Control('c') => return Some(Action::Quit(self.at_end)),
            Key::Control('z') => return Some(Action::Suspend),
            Key::Control(_) => return None,
            _ => {}
        }
        self.status.clear();
        self.quiet = 0;
        if self.is_filtering {
            self.filter_key(key);
            return None;
        }
        match &mut self.screen {
            Screen::Table => return self.table_key(key),
            Screen::Help => self.screen = Screen::Table,
            Screen::Stack(line) => match key {
                Key::Down | Key::Char('j') => *line = line.saturating_add(1),
                Key::Up | Key::Char('k') => *line = line.saturating_sub(1),
                Key::PageDown => *line = line.saturating_add(10),
                Key::PageUp => *line = line.saturating_sub(10),
                _ => {
                    self.screen = Screen::Table;
                    self.keep_selection();
                }
            },
            Screen::Quit => {
                let answer = match key {
                    Key::Enter => self.at_end,
                    Key::Char('e') if self.at_end == AtEnd::Stop => AtEnd::Stop,
                    Key::Char('r') if self.at_end != AtEnd::Stop => AtEnd::Restore,
                    Key::Char('l') => AtEnd::Leave,
                    Key::Char('o') => AtEnd::Off,
                    _ => {
                        self.screen = Screen::Table;
                        return None;
                    }
                };
                return Some(Action::Quit(answer));
            }
            Screen::Processes(place) => {
                let most = self.processes.len().saturating_sub(1);
                match key {
                    Key::Down | Key::Char('j') => *place = (*place + 1).min(most),
                    Key::Up | Key::Char('k') => *place = place.saturating_sub(1),
                    Key::Char(' ') | Key::Enter => {
                        let place = *place;
                        let is_other = self.choose(place);
                        if is_other {
                            self.begin_anew();
                        }
                        return is_other.then_some(Action::Choose);
                    }
                    _ => self.screen = Screen::Table,
                }
            }
            Screen::SaveAs(name) => match key {
                Key::Enter => {
                    let name = std::mem::take(name);
                    self.screen = Screen::Table;
                    return (!name.is_empty()).then_some(Action::Save(name));
                }
                Key::Esc => self.screen = Screen::Table,
                Key::Backspace => drop(name.pop()),
                Key::Char(c) if name.chars().count() < MAX_TYPED => name.push(c),
                _ => {}
            },
        }
        None
    }

    /// Chooses a process, or removes it; returns whether that was possible. One always stays.
    fn choose(&mut self, place: usize) -> bool {
        let Some((process, _)) = self.processes.get(place) else {
            return false;
        };
        let process = *process;
        if self.unchosen.remove(&process) {
            return true;
        }
        let can = self.unchosen.len() + 1 < self.processes.len();
        match can {
            true => self.unchosen.insert(process),
            false => {
                self.status = "one process stays chosen".to_owned();
                false
            }
        }
    }

    fn filter_key(&mut self, key: Key) {
        match key {
            Key::Enter => self.is_filtering = false,
            Key::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(c) if self.filter.chars().count() < MAX_TYPED => self.filter.push(c),
            _ => {}
        }
        self.keep_selection();
    }

    fn table_key(&mut self, key: Key) -> Option<Action> {
        match key {
            Key::Char('q') if self.ended.is_some() => return Some(Action::Quit(self.at_end)),
            Key::Char('q') => self.screen = Screen::Quit,
            Key::Char('?' | 'h') => self.screen = Screen::Help,
            Key::Char('s') => {
                self.sort = match self.sort {
                    Sort::Live => Sort::Growth,
                    Sort::Growth => Sort::Age,
                    Sort::Age => Sort::Samples,
                    Sort::Samples => Sort::Live,
                };
                self.sort_sites();
            }
            Key::Char('p') => self.screen = Screen::Processes(0),
            Key::Home => {
                self.sort_sites();
                self.move_selection(isize::MIN);
            }
            Key::Char('/') => self.is_filtering = true,
            Key::Char('m') => return Some(Action::Mark),
            Key::Char('w') => self.screen = Screen::SaveAs("live.allotrope".to_owned()),
            Key::Char('i') => {
                if let Some(key) = self.selection().map(|(_, it)| it.key) {
                    self.move_selection(1);
                    self.ignored.insert(key);
                    self.keep_selection();
                }
            }
            Key::Esc => {
                self.filter.clear();
                self.keep_selection();
            }
            Key::Enter if self.selection().is_some() => self.screen = Screen::Stack(0),
            Key::Down | Key::Char('j') => self.move_selection(1),
            Key::Up | Key::Char('k') => self.move_selection(-1),
            Key::PageDown => self.move_selection(10),
            Key::PageUp => self.move_selection(-10),
            _ => {}
        }
        None
    }
}
