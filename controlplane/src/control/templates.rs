//! Persistence templates: how many live, and the list of them.
//!
//! The table belongs to the lcores; this looks at it, a slice each millisecond and once around in
//! about a second (longer beyond a million templates), and ends templates whose server is gone, so
//! that their places are free.

use engine::addr::Addr;
use engine::templates::{Place, TemplateRow, Templates};
use engine::ticks::Ticks;

use super::Control;
use super::query::Meaning;
use crate::change::Refusal;
use crate::slots::Slot;
use crate::store::Store;
use crate::views::{ConnCursor, ConnFilter, TemplatePage, TemplateView};

/// Turns in which the whole table is seen, unless that would be more buckets a turn than this.
const TURNS: usize = 1_000;
const SLICE: usize = 256;
/// Buckets that one answer looks at.
const LOOKS: usize = 1 << 16;
/// Rows of a page unless the filter says otherwise, and the most it can say.
const ROWS: (u32, u32) = (1_000, 10_000);

/// A look at the whole table in the making, and what the last one found.
#[derive(Debug, Default)]
pub(super) struct Census {
    bucket: usize,
    counted: u64,
    living: u64,
    peak: u64,
}

impl Census {
    /// One turn's slice.
    pub(super) fn tick(&mut self, templates: &Templates, store: &Store, now_ms: u64) {
        let slots = store.slots().all();
        let gone = |place| of(slots, place).is_none();
        for _ in 0..templates.n_buckets().div_ceil(TURNS).min(SLICE) {
            self.counted += templates.sweep(self.bucket, Ticks(now_ms), gone) as u64;
            self.bucket += 1;
            if self.bucket >= templates.n_buckets() {
                self.peak = self.peak.max(self.counted);
                (self.living, self.counted, self.bucket) = (self.counted, 0, 0);
                return;
            }
        }
    }

    /// Templates that live, as of the last look.
    pub(super) const fn living(&self) -> u64 {
        self.living
    }

    /// Most that any look found.
    pub(super) const fn peak(&self) -> u64 {
        self.peak
    }
}

/// The slot of a place, unless its server is gone.
fn of(slots: &[Slot], place: Place) -> Option<&Slot> {
    let slot = slots.get(place.slot as usize)?;
    (slot.resolves() && slot.generation == place.generation).then_some(slot)
}

impl Control {
    /// A page of persistence templates. It may have fewer rows than it could: an answer looks at a
    /// part of a large table only.
    ///
    /// # Errors
    /// When the filter names something that does not exist.
    pub fn templates(&self, filter: &ConnFilter) -> Result<TemplatePage, Refusal> {
        let meaning = Meaning::of(filter, &self.store)?;
        let rows = if filter.limit == 0 { ROWS.0 } else { filter.limit.min(ROWS.1) };
        let first = filter.cursor.map_or(0, |cursor| cursor.bucket as usize);
        let end = self.setup.templates.n_buckets();
        let mut page = TemplatePage::default();
        let mut bucket = first;
        while bucket < end && bucket - first < LOOKS && page.templates.len() < rows as usize {
            let (now, slots) = (Ticks(self.now_ms), self.store.slots().all());
            let service = |place| of(slots, place).map(|slot| slot.service);
            let found = self.setup.templates.rows(bucket, now, service);
            let wanted = found.filter(|row| {
                meaning.service.is_none_or(|id| id == row.holder.service)
                    && meaning.slots.as_ref().is_none_or(|s| s.contains(&row.place.slot))
            });
            page.templates.extend(wanted.filter_map(|row| self.template(&row, filter)));
            bucket += 1;
        }
        let next = u32::try_from(bucket).ok().filter(|_| bucket < end);
        page.next = next.map(|bucket| ConnCursor { lcore: 0, bucket });
        Ok(page)
    }

    fn template(&self, row: &TemplateRow, filter: &ConnFilter) -> Option<TemplateView> {
        let service = &self.store.services().find(|e| e.id == row.holder.service)?.spec;
        let bits = config::persistence::rules(service)?.bits;
        if filter.client.is_some_and(|c| Addr::from(c).masked(bits) != row.holder.client) {
            return None;
        }
        let spec = of(self.store.slots().all(), row.place)?.spec.as_ref()?;
        let live = self.lives.first();
        let serves = live.is_some_and(|live| live.serves_known(row.place.slot));
        Some(TemplateView {
            service: service.name.clone(),
            protocol: service.protocol,
            client: row.holder.client.into(),
            client_prefix: if service.address.is_ipv4() { bits - 96 } else { bits },
            virtual_address: service.address,
            virtual_port: service.port,
            server: spec.address,
            server_port: spec.port.unwrap_or_default(),
            state: if serves { "ASSURED" } else { "VOID" }.to_owned(),
            expires_secs: u32::try_from(row.left.0.div_ceil(1_000)).unwrap_or(u32::MAX),
        })
    }
}
