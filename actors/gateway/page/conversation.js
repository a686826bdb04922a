// One conversation and its turns, as plain data: from the server, from what this browser keeps, or begun here.

import { spoken } from './thoughts.js';

const title_characters_max = 80;

/**
 * A message and its answer. A turn goes waiting → answering → done | stopped | failed; one that was read, and of which
 * nobody knows how it went, is `stored`.
 */
export class Turn {
    constructor(user, state = 'waiting') {
        this.user = user;
        this.answer = '';
        this.thought = '';
        this.state = state;
        this.error = null;
        this.note = '';
        this.finish_reason = null;
        this.timings = null;
        this.attention = null;
        this.usage = null;
        this.was_read = false;
        this.canceller = new AbortController();
        this.sent_at = performance.now();
        this.first_at = null;
        this.ended_at = null;
    }

    get is_live() {
        return this.state === 'waiting' || this.state === 'answering';
    }

    /** Whether the server remembers it: of an answer that was stopped it keeps what was told. */
    get is_said() {
        return this.answer + this.thought !== '' && ['done', 'stored', 'stopped'].includes(this.state);
    }

    static of_round(round) {
        const { finish_reason = null, usage = null, timings = null, attention = null } = round;
        const turn = new Turn(String(round.user), 'stored');
        if (timings) turn.state = finish_reason === null ? 'stopped' : 'done';
        const thought = String(round.reasoning_content ?? round.thought ?? '');
        const answer = String(round.assistant ?? round.answer ?? '');
        return Object.assign(turn, { answer, thought, finish_reason, usage, timings, attention, was_read: true });
    }
}

/** A conversation without an id is a draft: the server hears of it with its first message. */
export class Conversation {
    constructor(id = null) {
        this.id = id;
        this.title = '';
        this.given_title = ''; // that the server has not heard of
        this.system = '';
        this.turns = [];
        this.unread_turns = 0;
        this.tokens = 0;
        this.unsent = '';
        this.is_loaded = id === null;
        this.is_kept_here = false; // and the server does not list it
        this.load_error = null;
        this.is_removed = false;
        this.has_news = false;
    }

    get live_turn() {
        const last = this.turns.at(-1);
        return last?.is_live ? last : null;
    }

    /** With those of the server that were not read yet; whoever has any is not deleted without a question. */
    get turn_count() {
        return this.unread_turns + this.turns.length;
    }

    get name() {
        return this.title || (this.turn_count > 0 ? this.id : null) || 'New conversation';
    }

    /** A list says how many rounds there are, not what was said in them. */
    take_listed(session) {
        this.title = session.title || this.title;
        this.tokens = session.tokens ?? 0;
        this.unread_turns = session.round_count ?? rounds_of(session).length;
    }

    take_session(session) {
        this.title = session.title || this.title;
        this.system = session.system ?? '';
        this.tokens = session.tokens ?? 0;
        this.unread_turns = 0;
        this.turns = rounds_of(session).map(Turn.of_round);
        this.is_loaded = true;
        this.entitle();
    }

    take_kept(kept) {
        this.take_session({ ...kept, rounds: kept.turns });
        this.is_kept_here = true;
    }

    /** What a browser keeps of it. */
    get as_kept() {
        const { id, title, system, tokens } = this;
        const turns = this.turns
            .filter((turn) => turn.is_said)
            .map(({ user, answer, thought, finish_reason, usage, timings, attention }) => ({
                ...{ user, answer, thought, finish_reason, usage, timings, attention },
            }));
        return { id, title, system, tokens, turns };
    }

    get #first_line() {
        return (this.turns[0]?.user ?? '').trim().split('\n')[0].trim();
    }

    entitle() {
        this.title ||= this.#first_line.slice(0, title_characters_max);
    }

    /** Whether somebody gave it a title: without one it has the beginning of what was asked first. */
    get is_renamed() {
        return this.title !== '' && !this.#first_line.startsWith(this.title.replace(/…$/, ''));
    }

    /** What was said before a turn, for a server that has forgotten it. */
    history_before(turn) {
        const said = this.turns.slice(0, this.turns.indexOf(turn)).filter((one) => one.is_said);
        return said.flatMap(({ user, answer }) => [
            { role: 'user', content: user },
            { role: 'assistant', content: answer },
        ]);
    }

    has_text(words) {
        return this.turns.some((turn) => `${turn.user}\n${turn.answer}`.toLowerCase().includes(words));
    }
}

/** The rounds a person took part in; a system prompt is a round too. */
export function rounds_of(session) {
    return (session.rounds ?? []).filter((round) => round.user);
}

/**
 * Whether the server kept a turn that did not end well: then its answer is what arrived, or more or less of it. A round
 * has what the model thought in it; of the turn that may stand apart.
 */
function kept_as(turn, round) {
    if (round.user !== turn.user || turn.answer + turn.thought === '') return false;
    const told = spoken(turn.answer);
    const answer = spoken(round.assistant ?? '');
    if (told === '') return answer === ''; // it had thoughts only
    return answer.startsWith(told) || told.startsWith(answer);
}

/**
 * The index of the first round that is none of `turns`, or null. Turns that ended well are rounds for certain; of the
 * others only those the server kept.
 */
export function round_after(turns, session) {
    const rounds = rounds_of(session);
    let next = 0;
    for (const turn of turns) {
        const is_certain = turn.state === 'done' || turn.state === 'stored';
        if (next < rounds.length && (is_certain || kept_as(turn, rounds[next]))) ++next;
    }
    return rounds[next]?.index ?? null;
}
