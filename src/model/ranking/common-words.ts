/**
 * How common words are in English as people write to each other: where few memories are stored, their own counts say
 * little about which word of a question tells anything.
 *
 * Three steps, compiled by hand from general knowledge of the language: a word is in the step of about how many short
 * messages hold it. Words that are in no step are taken for rare. Must not know: rows, questions.
 */
import { indexForm } from "../text/tokens.ts";

/** About one message in six. */
const everywhere = `
  ok okay yes yeah yep no nope not hi hello hey thanks thank please sorry well also just like really maybe
  perhaps actually probably again back still even much many more most less least too very now today tomorrow
  yesterday soon later always never ever often sometimes already yet one two first last next new old good great
  nice better best bad other another same every each all any anything everything nothing something someone
  somebody anyone everyone everybody nobody thing things stuff way lot bit kind sort part time times day days
  week weeks month months year years morning evening night long short little small big want wants wanted need
  needs needed likes liked know knows knew known think thinks thought get gets getting got gotten go goes going
  went gone come comes came coming make makes made making take takes took taken taking give gives gave given
  giving put puts use uses used using see sees saw seen seeing look looks looked looking find finds found say
  says said tell tells told ask asks asked talk talks talked try tries tried trying let lets keep keeps kept
  work works worked working feel feels felt seem seems seemed mean means meant start starts started help helps
  helped show shows showed stop right wrong sure true fine people person man men woman women guy home house
  place here there where around up down out off away over under before after until while since because though
  although however instead without within between among against during through than via per cannot will would
  should could might may must shall can did done doing being having about into onto upon`;

/** About one message in twenty-five. */
const often = `
  able above across add adds added adding ago alone along almost answer answers anyway anyways apart area baby
  bag become becomes became bed begin begins began beginning behind believe below beside besides beyond body
  book books both bought bottom box boy bring brings brought brother build builds building built business busy
  buy buys buying call calls called calling car care careful carry case cases catch cause certain certainly
  chance change changes changed changing check checks checked child children choose city class clean clear
  clearly close closed cold color colour common company complete completely computer consider contact continue
  cool correct cost costs country couple course cover create created cut date dad daughter decide decided deep
  definitely depend depends describe die different difficult dinner directly do does door double drink drive
  drop early easily easy eat eats eating either else email empty end ends ended ending enjoy enough especially
  etc event eventually exactly example except excited expect expensive explain eye eyes face fact fall family
  far fast father favorite favourite feeling few fight figure fill final finally finish finished fire fit five
  fix fixed follow following follows food foot forget forgot forward four free friend friends front full fun
  funny further future game general generally girl glad goal group grow guess half hand hands happen happens
  happened happening happy hard hardly hate head hear heard heart heavy high hold hope hoping hot hour hours
  hundred hurt idea ideas imagine important improve include includes including inside interested interesting
  issue issues job join kid kids kill kitchen large late lately learn learned learning leave leaves leaving left
  leg letter level lie life light line lines list listen live lives living local longer lose lost loud love
  loved loves low lower luck lucky lunch main major manage matter meet meeting meetings message messages middle
  mind mine minute minutes miss missed moment money mother mouth move moves moved moving music name named names
  near nearly necessary normal note notes notice number numbers offer office once only open opens opened opening
  option options order orders outside own page paid paper parents particular party pass past pay pays perfect
  phone photo pick picture piece plan plans planned planning play plays played playing point points possible
  practice prefer prefers pretty price problem problems process project projects promise proper properly pull
  push question questions quick quickly quiet quite rather reach read reading reads ready real reason reasons
  recent recently remember remind rest result results return review room rule rules run runs running sad safe
  save school second seconds send sends sending sent separate serious set sets several shop side sign simple
  simply single sister sit size sleep slow slowly smart sold some son sound sounds space speak special spend
  spent stand state stay stays step steps story straight strange street strong student study stupid such suggest
  summer support suppose supposed sun switch system table talking team ten term test tests text thinking third
  thousand three till tired together tonight top total touch tough town travel trip trouble truth turn turned
  turns twice type types understand understood unless update useful user users usual usually various version
  visit voice wait waiting walk walks wall war warm watch watched watching water wear weather weekend weird
  welcome whatever whenever wherever whether whole win window winter wish wonder wondering wonderful word words
  world worry worse worst worth write writes writing written wrote young yours`;

/** About one message in a hundred. */
const sometimes = `
  accept account action active activity actual address advice afraid afternoon age agree air allow allowed
  amount angry animal annoyed annoying apartment appear apply approach april argue arm army arrive art article
  asleep attack attention august autumn available average avoid aware background ball band bank bar base based
  basic bathroom beach beautiful birthday black blood blue board boat born boring boss break breakfast breath
  bridge bright broken brown budget calm camera camp card career cash cat cats celebrate center centre century
  chair challenge chapter character cheap choice christmas church clock clothes club coat code coffee collect
  college comfortable comment community compare competition complain concern condition confirm confused connect
  connection content contract control conversation cook cooking copy corner count court crazy cream credit cross
  crowd cry culture cup curious current currently customer customers daily damage dance danger dangerous dark
  data dead deal dear december decision degree delete deliver desk detail details develop device dirty discover
  discuss dish distance doctor document dog dogs dollar dream dress driver dry due dust ear earth east effect
  effort eight electric eleven employee energy engine english equal evidence exam excellent exchange excuse
  exercise exist experience expert express extra factor fail fair false famous fancy farm fashion fat favor fear
  february field fifteen fifty file files film finger fish flight floor flower fly focus folder foreign forest
  form former forty freedom fresh friday friendly fruit fully furniture garden gas gift glass gold government
  grade grand grandmother grass gray green grey ground growth guest guide habit hair hall hang hat health
  healthy hell hide hill history hit hobby hole holiday holidays horse hospital hotel huge human hungry hurry
  husband ice ill image immediately impossible increase indeed individual industry information instance interest
  internet interview invite island item items january july june key kick king knee lady lake land language
  laptop latest laugh law lazy lead leader legal lesson library lift likely limit link lips load lock log lonely
  luckily machine magazine mail manager march mark market marry married match material meal meat media medical
  medicine medium member members memory mention menu metal mess method million mirror mistake model modern
  monday mood moon mountain mouse movie movies museum natural nature neck neighbor neighbour nervous news
  newspaper nine noise none noon north nose november object obvious obviously october officer oil opinion
  opportunity opposite original otherwise ourselves owner pack pain paint pair park partner passenger patient
  pattern peace pen percent performance period permission personal pet physical piano pink plane plant plants
  plate player plenty pocket police policy political pool poor popular position positive post pot power
  practical prepare present presentation president press previous private prize probable produce product
  professional program progress proud prove provide public purpose quality quarter queen quietly race radio rain
  raise range rate recipe record red reduce regular relationship relax release remain remove rent repair repeat
  replace reply report request research respect respond response responsible restaurant rich ride ring rise risk
  river road rock role roof round row salt sample saturday scared science screen sea search season seat secret
  section secure self sell sense september serve service seven sex shape share sharp shirt shoe shoes shopping
  shoulder shout shower shut sick silence silly silver similar sing site situation six skill skin sky smell
  smile smoke smooth snow social soft software solution solve song soul source south speech speed sport spring
  square staff stage stairs standard star station steal stick stone store storm stream stress style subject
  success successful sudden suddenly sugar suit sunday surprise sweet swim taste tax taxi tea teach teacher tear
  technology teeth telephone television temperature thick thin thirty thursday ticket tie tight title toe topic
  tour track trade traffic train training tree trust tuesday tv twelve twenty ugly uncle uniform union unit
  university upset upstairs urgent usage vacation value video view village waste web wednesday website wedding
  weight west wet wheel white wide wife wild wind wine wing wood worker yard yellow zero`;

/** Shares of short messages that hold a word of each step. */
const steps = [
  [sometimes, 0.008],
  [often, 0.04],
  [everywhere, 0.15],
] as const;

/** Made when a recall first asks: a start has no use for it. */
let shares: ReadonlyMap<string, number> | undefined;

function readShares(): ReadonlyMap<string, number> {
  return new Map(
    steps.flatMap(([words, share]) =>
      words.split(/\s+/).flatMap((word) => (word === "" ? [] : [[indexForm(word), share] as const])),
    ),
  );
}

/** Of how many short messages in English hold the word, 0 to 1; `form` is as an index holds it. */
export function commonness(form: string): number {
  shares ??= readShares();
  return shares.get(form) ?? 0;
}
