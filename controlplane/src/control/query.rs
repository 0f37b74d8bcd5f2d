//! Lists of connections: asked lcore by lcore, answered in slices, never waited for.
//!
//! A page goes through the lcores in order and ends where it has enough rows. Each question to an
//! lcore has a number of its own, so what a silent lcore says too late is recognised and dropped.
//! An lcore works on one question at a time; lists that want the same lcore take turns.

use std::collections::HashSet;

use config::ServerRef;
use engine::mailbox::{ConnRow, Order, Query};

use super::{Done, LcoreLink};
use crate::change::{Refusal, RefusalCode};
use crate::slots::Slot;
use crate::store::Store;
use crate::views::{ConnCursor, ConnFilter, ConnPage, ConnView};

/// An lcore that says nothing for so long is left out, in ms.
const SILENT_MS: u64 = 1_000;
/// Lists at a time.
const LISTS: usize = 16;
/// Rows of a page unless the filter says otherwise, and the most it can say.
const ROWS: (u32, u32) = (1_000, 10_000);

/// One list in the making.
struct List {
    /// Number, bucket, limit and filter of the present question.
    query: Query,
    /// The lcore that is asked, by position.
    lcore: usize,
    /// Whether its ring has taken the question.
    asked: bool,
    /// When the lcore last gave a sign to anybody, or the question was first tried.
    since_ms: u64,
    /// The slots that a server filter means.
    slots: Option<HashSet<u32>>,
    rows: u32,
    page: ConnPage,
    done: Done<ConnPage>,
}

/// All lists in the making.
#[derive(Default)]
pub(super) struct Queries {
    lists: Vec<List>,
    last_id: u32,
}

impl Queries {
    pub(super) fn begin(
        &mut self,
        filter: &ConnFilter,
        store: &Store,
        lcores: usize,
        now_ms: u64,
        done: Done<ConnPage>,
    ) {
        let cursor = filter.cursor.unwrap_or_default();
        let resolved = self.room().and_then(|()| Meaning::of(filter, store)).and_then(|m| {
            let bad = || Refusal::new(RefusalCode::BadValue, "no such lcore in the cursor");
            (usize::from(cursor.lcore) < lcores).then_some(m).ok_or_else(bad)
        });
        let meaning = match resolved {
            Ok(meaning) => meaning,
            Err(refusal) => return done(Err(refusal)),
        };
        let limit = if filter.limit == 0 { ROWS.0 } else { filter.limit.min(ROWS.1) };
        let query = Query {
            id: self.next_id(),
            bucket: cursor.bucket,
            limit,
            service: meaning.service,
            server: meaning.only_slot(),
            client: filter.client.map(Into::into),
        };
        self.lists.push(List {
            query,
            lcore: cursor.lcore.into(),
            asked: false,
            since_ms: now_ms,
            slots: meaning.slots,
            rows: limit,
            page: ConnPage::default(),
            done,
        });
    }

    /// One connection that an lcore found.
    pub(super) fn row(
        &mut self,
        (lcore, core): (usize, u16),
        row: &ConnRow,
        store: &Store,
        now_ms: u64,
    ) {
        self.heard(lcore, now_ms);
        let Some(at) = self.find(lcore, row.id) else { return };
        let list = &mut self.lists[at];
        if list.slots.as_ref().is_none_or(|slots| slots.contains(&row.server)) {
            list.page.connections.push(view(core, row, store));
        }
    }

    /// An lcore has looked as far as it was asked to.
    pub(super) fn answered(&mut self, lcore: usize, id: u32, next: Option<u32>, now_ms: u64) {
        self.heard(lcore, now_ms);
        let Some(at) = self.find(lcore, id) else { return };
        // To the end: the others that wait for this lcore come first.
        let mut list = self.lists.remove(at);
        list.query.id = self.next_id();
        list.asked = false;
        match next {
            Some(bucket) => list.query.bucket = bucket,
            None => (list.lcore, list.query.bucket) = (lcore + 1, 0),
        }
        let found = u32::try_from(list.page.connections.len()).unwrap_or(u32::MAX);
        list.query.limit = list.rows.saturating_sub(found);
        self.lists.push(list);
    }

    /// Asks what is to be asked, ends what is complete.
    pub(super) fn tick(&mut self, lcores: &mut [LcoreLink], now_ms: u64) {
        let mut asked: HashSet<usize> =
            self.lists.iter().filter(|l| l.asked).map(|l| l.lcore).collect();
        for mut list in std::mem::take(&mut self.lists) {
            if now_ms >= list.since_ms + SILENT_MS && list.lcore < lcores.len() {
                list.page.incomplete.push(lcores[list.lcore].core);
                list.query.id = self.next_id();
                (list.lcore, list.query.bucket) = (list.lcore + 1, 0);
                (list.asked, list.since_ms) = (false, now_ms);
            }
            if list.lcore >= lcores.len() || list.query.limit == 0 {
                list.finish(lcores.len());
                continue;
            }
            if !list.asked && !asked.contains(&list.lcore) {
                let orders = &mut lcores[list.lcore].end.orders;
                list.asked = orders.push(Order::Query(list.query)).is_ok();
                asked.extend(list.asked.then_some(list.lcore));
            }
            self.lists.push(list);
        }
    }

    /// Nothing will be answered any more.
    pub(super) fn end(&mut self, refusal: &Refusal) {
        self.lists.drain(..).for_each(|l| (l.done)(Err(refusal.clone())));
    }

    fn room(&self) -> Result<(), Refusal> {
        if self.lists.len() < LISTS {
            return Ok(());
        }
        let message = format!("{LISTS} lists of connections are being made already");
        Err(Refusal::new(RefusalCode::LimitReached, message).hint("ask again in a moment"))
    }

    fn find(&self, lcore: usize, id: u32) -> Option<usize> {
        self.lists.iter().position(|l| l.asked && l.lcore == lcore && l.query.id == id)
    }

    /// An lcore gave a sign: it lives, whomever it answered.
    fn heard(&mut self, lcore: usize, now_ms: u64) {
        let waiting = self.lists.iter_mut().filter(|l| l.lcore == lcore);
        waiting.for_each(|l| l.since_ms = now_ms);
    }

    const fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }
}

impl List {
    fn finish(mut self, lcores: usize) {
        if self.lcore < lcores {
            let lcore = u16::try_from(self.lcore).unwrap_or(u16::MAX);
            self.page.next = Some(ConnCursor { lcore, bucket: self.query.bucket });
        }
        (self.done)(Ok(self.page));
    }
}

/// A filter in the lcores' words.
pub(super) struct Meaning {
    pub(super) service: Option<u16>,
    pub(super) slots: Option<HashSet<u32>>,
}

impl Meaning {
    pub(super) fn of(filter: &ConnFilter, store: &Store) -> Result<Self, Refusal> {
        let service = filter.service.as_ref().map(|s| store.service(s)).transpose()?;
        let service = service.map(|e| e.id);
        let Some(server) = &filter.server else { return Ok(Self { service, slots: None }) };
        let all = (0_u32..).zip(store.slots().all());
        let of_service = all.filter(|(_, s)| service.is_none_or(|id| s.service == id));
        let slots: HashSet<u32> =
            of_service.filter(|(_, s)| means(server, s)).map(|(slot, _)| slot).collect();
        if slots.is_empty() {
            let message = format!("there is no server {server}");
            return Err(Refusal::new(RefusalCode::NoSuchServer, message));
        }
        Ok(Self { service, slots: Some(slots) })
    }

    fn only_slot(&self) -> Option<u32> {
        let slots = self.slots.as_ref().filter(|s| s.len() == 1)?;
        slots.iter().next().copied()
    }
}

fn means(server: &ServerRef, slot: &Slot) -> bool {
    let Some(spec) = &slot.spec else { return false };
    match server {
        ServerRef::Address(a, port) => {
            spec.address == *a && port.is_none_or(|p| spec.port == Some(p))
        }
        ServerRef::Name(name) => spec.name == *name,
    }
}

fn view(lcore: u16, row: &ConnRow, store: &Store) -> ConnView {
    let slot = store.slots().all().get(row.server as usize);
    let spec = slot.filter(|s| s.generation == row.generation).and_then(|s| s.spec.as_ref());
    ConnView {
        protocol: row.proto,
        client: row.client.0.into(),
        client_port: row.client.1,
        virtual_address: row.vip.0.into(),
        virtual_port: row.vip.1,
        server: spec.map(|s| s.address),
        server_port: spec.and_then(|s| s.port),
        state: row.state.name().to_owned(),
        expires_secs: row.expires_secs,
        lcore,
    }
}
