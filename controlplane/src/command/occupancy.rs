//! How full the director's tables are, a line each.

use crate::table::count;
use crate::views::MemoryView;

/// The connection tables, and what became of new flows that they had no room for.
pub(super) fn connections(m: &MemoryView) -> String {
    let [now, max, peak] = [m.connections, m.connections_max, m.connections_peak].map(count);
    let [full, guarded, evicted] =
        [m.insert_failures, m.flood_guarded, m.half_open_evicted].map(count);
    format!(
        "table  {now} of {max}, peak {peak}  full {full}  flood-guard {guarded}  half-open ended \
         {evicted}\n"
    )
}

/// The table of persistence templates.
pub(super) fn templates(m: &MemoryView) -> String {
    let [now, max, peak, full] =
        [m.templates, m.templates_max, m.templates_peak, m.template_failures].map(count);
    format!("templates  {now} of {max}, peak {peak}  full {full}\n")
}
