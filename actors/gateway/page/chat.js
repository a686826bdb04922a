// Wires the page together: the conversations, what shows them, the composer, the drawers.

import { list_models } from './api.js';
import { Conversations } from './conversations.js';
import { element, fit_height, icon } from './dom.js';
import { is_overlay, set_drawer, start_drawers } from './drawers.js';
import { download } from './export.js';
import { ConversationView } from './messages.js';
import { Panel } from './panel.js';
import { ask_api_key, ask_title, confirm, Settings } from './settings.js';
import { draw_sidebar } from './sidebar.js';
import { forget_all_kept } from './storage.js';
import { StoreFigures } from './store.js';

const announcements_max = 30;
const searched_from = 4; // conversations: fewer can be looked through
const by_id = (id) => document.getElementById(id);

const composer = by_id('composer');
const composer_text = by_id('composer-text');
const settings = new Settings(by_id('settings'));
const conversations = new Conversations(settings, changed);
const panel = new Panel(by_id('panel'), go_to);
const store_figures = new StoreFigures(by_id('panel-store'));
const views = new Map();
const asked_address = location.hash;
let key_request = null;
let models = [];

// --- What changed is drawn.

function changed(what, conversation, turn) {
    if (what === 'list') draw_list();
    if (what === 'turns') views.get(conversation)?.sync();
    if (what === 'turn') views.get(conversation)?.update(turn);
    if (what === 'turn' && turn.state === 'failed' && turn.error.status === 401) answer_with_key(conversation, turn);
    if (what === 'turn' && !turn.is_live) store_figures.load_soon();
    if (conversation === undefined || conversation !== conversations.current) return;
    refresh_composer();
    if (what === 'turns') panel.draw(conversation);
    if (what === 'turn') panel.update(conversation, turn);
    if (!turn?.is_live) store_figures.draw(conversation);
    if (what === 'turn' && turn.state === 'stopped') announce('Stopped.');
}

function draw_list() {
    const words = by_id('search').value.trim().toLowerCase();
    draw_sidebar(by_id('conversations'), conversations, words, { open: open_conversation, rename, fork, remove });
    by_id('search').hidden = words === '' && conversations.all.length < searched_from;
    const { current } = conversations;
    if (!current) return;
    const title = current.name;
    by_id('title').textContent = title;
    document.title = `${title} · Rondo`;
    by_id('empty').hidden = current.turns.length > 0 || !current.is_loaded;
    by_id('export').hidden = current.turns.length === 0;
    by_id('system-note').textContent = settings.system ? `System prompt: ${settings.system}` : 'No system prompt';
    history.replaceState(null, '', address_of(current));
}

function address_of(conversation) {
    return conversation.id === null ? location.pathname : `#${encodeURIComponent(conversation.id)}`;
}

function view_of(conversation) {
    if (!views.has(conversation)) {
        const view = new ConversationView(
            conversation,
            {
                replay: (turn, text) => {
                    conversations.replay(conversation, turn, text);
                    composer_text.focus();
                },
                retry_load: () => read(conversation),
            },
            announce,
        );
        views.set(conversation, view);
        by_id('views').append(view.root);
    }
    return views.get(conversation);
}

/** Says something to a screen reader. */
function announce(text) {
    const region = by_id('announcer');
    region.append(element('p', {}, text));
    while (region.children.length > announcements_max) region.firstChild.remove();
}

function go_to(turn) {
    if (is_overlay('panel')) set_drawer('panel', false);
    view_of(conversations.current).focus_turn(turn);
}

// --- Conversations: open, begin, rename, fork, delete, export.

function open_conversation(conversation) {
    const view = view_of(conversation);
    for (const other of views.values()) if (other !== view) other.hide();
    if (conversations.current) conversations.current.unsent = composer_text.value;
    conversations.open(conversation);
    view.show();
    composer_text.value = conversation.unsent;
    fit_height(composer_text);
    refresh_composer();
    panel.draw(conversation);
    store_figures.draw(conversation);
    if (is_overlay('sidebar')) set_drawer('sidebar', false);
}

function begin() {
    open_conversation(conversations.draft());
    composer_text.focus();
}

async function rename(conversation) {
    const title = await ask_title(by_id('rename'), conversation.title);
    if (title) await report(() => conversations.rename(conversation, title));
}

async function fork(conversation) {
    await report(async () => {
        open_conversation(await conversations.fork(conversation));
        composer_text.focus();
    });
}

async function remove(conversation) {
    const question = `Delete “${conversation.name}” with all its turns?`;
    if (conversation.turn_count > 0 && !(await confirm(by_id('confirm'), question))) return;
    await report(async () => {
        const at = conversations.all.indexOf(conversation);
        await conversations.remove(conversation);
        store_figures.load_soon();
        views.get(conversation)?.root.remove();
        views.delete(conversation);
        if (conversation === conversations.current)
            open_conversation(conversations.all[at] ?? conversations.all[at - 1] ?? conversations.draft());
        composer_text.focus();
    });
}

/** Runs something a button of the sidebar asked for; why it failed is shown below the list. */
async function report(work, retry = null) {
    const line = by_id('sidebar-error');
    line.replaceChildren();
    try {
        await work();
    } catch (error) {
        if (error.status === 401 && (await request_key())) return report(work, retry);
        line.append(element('p', { class: 'failure', role: 'alert', title: error.detail }, error.message));
        if (retry) line.append(element('button', { type: 'button', class: 'button', click: retry }, 'Retry'));
    }
}

// --- The API key, asked for once however many requests were refused.

function request_key() {
    key_request ??= ask_api_key(by_id('key')).finally(() => {
        key_request = null;
    });
    return key_request;
}

async function answer_with_key(conversation, turn) {
    if ((await request_key()) && conversation.turns.at(-1) === turn) conversations.replay(conversation, turn, turn.user);
}

// --- The composer.

function refresh_composer() {
    const is_live = conversations.current.live_turn !== null;
    by_id('stop').hidden = !is_live;
    by_id('send').hidden = is_live;
    by_id('send').disabled = composer_text.value.trim() === '';
}

async function read(conversation) {
    await conversations.open(conversation);
    const is_refused = conversation.load_error?.status === 401 && (await request_key());
    if (is_refused && conversations.current === conversation) await conversations.open(conversation);
}

function send() {
    const { current } = conversations;
    const text = composer_text.value.trim();
    if (text === '' || current.live_turn) return;
    if (!current.is_loaded) return void read(current); // the text stays until its turns are known
    composer_text.value = '';
    current.unsent = '';
    fit_height(composer_text);
    composer_text.focus();
    conversations.send(current, text);
}

function stop() {
    conversations.stop(conversations.current);
    composer_text.focus();
}

composer.addEventListener('submit', (event) => {
    event.preventDefault();
    send();
});
composer_text.addEventListener('input', () => {
    fit_height(composer_text);
    refresh_composer();
});
composer_text.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && conversations.current.live_turn) stop();
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
});
by_id('stop').addEventListener('click', stop);
by_id('skip').addEventListener('click', (event) => {
    // Following the link would put its own fragment where the address names the conversation.
    event.preventDefault();
    composer_text.focus();
});
by_id('new').addEventListener('click', begin);
by_id('search').addEventListener('input', draw_list);
by_id('export').addEventListener('click', () => by_id('export-dialog').showModal());
by_id('export-dialog').addEventListener('close', () => {
    const kind = by_id('export-dialog').returnValue;
    if (kind === 'markdown' || kind === 'json') download(conversations.current, kind);
    by_id('export-dialog').returnValue = '';
});

async function edit_settings() {
    await settings.edit();
    if (!settings.keeps) forget_all_kept();
    show_models();
    draw_list();
}
by_id('open-settings').addEventListener('click', edit_settings);
by_id('set-system').addEventListener('click', edit_settings);

// --- The start.

/** What is served: a choice where there is one. */
function choice_of(label, names, chosen, choose) {
    if (names.length < 2) return names[0] ?? '';
    const select = element(
        'select',
        { 'aria-label': label, title: label, change: () => choose(select.value) },
        ...names.map((name) => element('option', { value: name }, name)),
    );
    select.value = chosen;
    return select;
}

function show_models() {
    const ids = models.map((model) => model.id);
    if (!ids.includes(conversations.model)) conversations.model = ids[0];
    const methods = models[0]?.methods ?? [];
    settings.offer(methods);
    const model = choice_of('Model', ids, conversations.model, (id) => (conversations.model = id));
    const own = settings.method ?? methods[0];
    const method = choice_of('Attention', methods, own, (name) => settings.choose_method(name));
    const budget = settings.method && settings.budget_tokens ? ` · ${settings.budget_tokens} tokens` : '';
    by_id('model').replaceChildren(model, methods.length > 1 ? method : '', budget);
}

function load() {
    return report(async () => {
        [models] = await Promise.all([list_models(), conversations.load()]);
        show_models();
        store_figures.load();
        const wanted = conversations.all.find((one) => one.id !== null && address_of(one) === asked_address);
        if (wanted) open_conversation(wanted);
    }, load);
}

document.querySelectorAll('[data-icon]').forEach((button) => button.prepend(icon(button.dataset.icon)));
start_drawers();
open_conversation(conversations.draft());
load().then(() => composer_text.focus());
