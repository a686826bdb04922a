// The list and the panel: columns beside the messages where there is room, else above them one at a time.

const by_id = (id) => document.getElementById(id);
/** Where a drawer stands beside the messages, and where it does so from the start. */
const room = { sidebar: matchMedia('(min-width: 50rem)'), panel: matchMedia('(min-width: 72rem)') };
const open_at_first = { sidebar: room.sidebar, panel: matchMedia('(min-width: 80rem)') };

export const is_overlay = (name) => !room[name].matches;
const toggle_of = (name) => by_id(`toggle-${name}`);

export function set_drawer(name, is_open) {
    const had_focus = by_id(name).contains(document.activeElement);
    by_id(name).hidden = !is_open;
    toggle_of(name).setAttribute('aria-expanded', String(is_open));
    const overlays = Object.keys(room).filter((one) => is_overlay(one) && !by_id(one).hidden);
    by_id('main').inert = overlays.length > 0;
    by_id('scrim').hidden = overlays.length === 0;
    if (is_open && is_overlay(name)) by_id(name).querySelector('button').focus();
    if (!is_open && had_focus) toggle_of(name).focus();
}

export function start_drawers() {
    for (const name of Object.keys(room)) {
        toggle_of(name).addEventListener('click', () => set_drawer(name, by_id(name).hidden));
        by_id(`close-${name}`).addEventListener('click', () => set_drawer(name, false));
        by_id(name).addEventListener('keydown', (event) => {
            if (event.key === 'Escape' && is_overlay(name)) set_drawer(name, false);
        });
        open_at_first[name].addEventListener('change', () => set_drawer(name, open_at_first[name].matches));
        room[name].addEventListener('change', () => set_drawer(name, open_at_first[name].matches));
        set_drawer(name, open_at_first[name].matches);
    }
    by_id('scrim').addEventListener('click', () =>
        Object.keys(room).forEach((name) => is_overlay(name) && set_drawer(name, false)),
    );
}
